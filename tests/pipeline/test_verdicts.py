"""The verdict at the moments that matter, through the command line, on a user's own system that loses passages."""

import json
import os
import re
import sys
from collections.abc import Collection, Sequence
from pathlib import Path

import pytest

from rageval_dagster.storage.comparisons import find_baseline
from rageval_dagster.storage.incidents import open_incidents
from tests.cli.running import Ended, Run
from tests.pipeline.services import ROOT
from tests.pipeline.small_project import Project
from tests.pipeline.test_worst_cases import pages

SYSTEM = """
import json
from pathlib import Path

HERE = Path(__file__).parent

def answer(question, k):
    texts, hidden = json.loads((HERE / "known.json").read_text())
    found = [text for name, text in texts.items() if name in question and name not in hidden]
    others = [text for name, text in texts.items() if name not in question and name not in hidden]
    contexts = [*found, *others][:k]
    return {"answer": contexts[0], "contexts": contexts}
"""
NAMES = [
    f"{first} {second}"
    for first in ("Amber", "Birch", "Copper", "Dusty", "Ember", "Frost", "Golden", "Hollow", "Ivory", "Jasper")
    for second in (
        "lighthouse bicycle volcano orchestra bakery submarine cathedral glacier vineyard telescope aquarium stadium "
        "library railway windmill circus monastery hospital observatory"
    ).split()
]

pytestmark = pytest.mark.slow


def document(number: int) -> dict[str, str]:
    name = NAMES[number]
    text = f"The {name} was opened in {1500 + number} by the mayor. The {name} is closed on every second Monday."
    return {"id": name.replace(" ", "-").lower(), "title": name, "text": text}


class Customer:
    """A client, its documents, and its own system, from which passages can be hidden."""

    def __init__(self, project: Project, run: Run, monkeypatch: pytest.MonkeyPatch, numbers: Sequence[int]) -> None:
        self.project, self.run, self.monkeypatch, self.numbers = project, run, monkeypatch, list(numbers)
        (project.folder / "their_search.py").write_text(SYSTEM, encoding="utf-8")
        monkeypatch.setenv("PYTHONPATH", f"{project.folder}{os.pathsep}{ROOT}")
        monkeypatch.syspath_prepend(str(project.folder))
        monkeypatch.delitem(sys.modules, "their_search", raising=False)  # another test's
        Path("rageval.toml").write_text(
            '[clients.acme]\nsystem = "search"\nk = 3\n[clients.acme.systems.search]\nkind = "callable"\n'
            'function = "their_search:answer"\n',
            encoding="utf-8",
        )
        project.ingest("acme", [document(number) for number in self.numbers])
        self.hide([])

    def hide(self, numbers: Collection[int]) -> None:
        texts = {NAMES[number]: document(number)["text"] for number in self.numbers}
        known = json.dumps([texts, [NAMES[number] for number in numbers]])
        (self.project.folder / "known.json").write_text(known, encoding="utf-8")

    def replace(self, gone: Collection[int], new: Sequence[int]) -> None:
        """Ingests the same file, in which some documents make room for others."""
        self.numbers = [number for number in self.numbers if number not in gone] + list(new)
        self.project.ingest("acme", [document(number) for number in self.numbers])

    def ask_who_opened(self) -> None:
        """Of each document one question, with a reference answer of two words; none is generated."""
        questions = [
            {
                "question": f"Who opened the {NAMES[number]}?",
                "answers": ["the mayor"],
                "evidence": [{"document_id": document(number)["id"], "quote": f"{NAMES[number]} was opened in"}],
            }
            for number in self.numbers
        ]
        Path("questions.jsonl").write_text("\n".join(map(json.dumps, questions)), encoding="utf-8")
        self.monkeypatch.setenv("EVALUATION_AUTO_GENERATE_DATASETS", "false")
        assert self.run("datasets", "import", "questions.jsonl", "--client", "acme").code == 0

    def evaluate(self) -> Ended:
        return self.run("evaluate", "--client", "acme", "--gate", "--junit", "gate.xml")

    @property
    def incidents(self) -> list[str]:
        return [each.kind for each in open_incidents(self.project.database())]


def test_half_the_passages_of_37_questions_gone_and_back(
    project: Project, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    customer = Customer(project, run, monkeypatch, range(37))
    customer.ask_who_opened()
    customer.hide(range(3))
    assert customer.evaluate().code == 0
    same = customer.evaluate()
    assert (same.code, customer.incidents) == (0, [])
    assert "passed against run 1" in same.err
    customer.hide(range(4))
    assert customer.evaluate().code == 0, "one flip of 37 passes"
    customer.hide(range(14))
    fallen = customer.evaluate()
    assert (fallen.code, customer.incidents) == (1, ["regression"])
    assert "regressed against run 1: retrieval.hit_rate_at_3 0.919 -> 0.622" in fallen.err
    lines = fallen.out.splitlines()
    assert re.fullmatch("Regressed since .* against the baseline of .*: hit rate@3 and MRR got worse.", lines[1])
    failing = r"11 questions newly failing, also when asked again:\n  Who opened the .*\? \(and 10 more\)\nNext: "
    assert re.search(failing, fallen.out)
    assert "Next: rageval runs compare 1 4 (both answers), or rageval runs accept 4" in lines
    assert len(lines) <= 12, fallen.out
    junit = Path("gate.xml").read_text(encoding="utf-8")
    assert '<failure message="retrieval.hit_rate_at_3 0.919 -&gt; 0.622' in junit
    assert "Who opened" not in fallen.err + junit, "what goes into a log has ids"
    listed = json.loads(run("runs", "list", "--json").out)
    assert [row["verdict"] for row in listed] == ["regressed", "passed", "passed", "first"]
    # Metrics with the same fall have the same word, also where two runs are compared by hand.
    rows = {row["metric_id"]: row for row in json.loads(run("runs", "compare", "1", "4", "--json").out)["metrics"]}
    for name in ("retrieval.hit_rate_at_3", "retrieval.recall_at_3"):
        assert (rows[name]["decision"], round(rows[name]["difference"], 3)) == ("regressed", -0.297)
    shown = run("runs", "compare", "1", "4").out
    listed = run("runs", "compare", "1", "4", "--all").out
    assert "compared on 37 shared questions" in shown
    assert "\n7 metrics with fewer than 5 questions scored in both: --all shows them\n" in shown
    assert ("checks.fact_score" in shown, "checks.fact_score" in listed) == (False, True)
    customer.hide(range(3))
    again = customer.evaluate()
    assert (again.code, customer.incidents) == (0, [])
    assert "\nWell again: the run before regressed.\n" in again.out


def with_fifty_questions(project: Project, run: Run, monkeypatch: pytest.MonkeyPatch) -> Customer:
    """A customer of 120 documents after a first run of fifty questions."""
    project = project.given(monkeypatch, EVALUATION_DEFAULT_SAMPLE_SIZE="50", EVALUATION_TARGET_ITEMS="50")
    customer = Customer(project, run, monkeypatch, range(120))
    assert customer.evaluate().code == 0
    return customer


def test_a_fall_that_few_questions_still_show_is_not_taken_for_the_beginning(
    project: Project, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    customer = with_fifty_questions(project, run, monkeypatch)
    customer.replace(range(70), range(120, 190))
    customer.hide(range(70, 120, 3))
    for _ in range(2):
        fallen = customer.evaluate()
        assert fallen.code in (1, 3), fallen.err
        assert "against run 1" in fallen.err


def test_documents_replaced_in_the_middle_of_a_fall_launder_nothing(
    project: Project, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    customer = with_fifty_questions(project, run, monkeypatch)
    customer.hide(range(0, 120, 5))
    assert customer.evaluate().code in (1, 3), "every fifth document is not found any more"
    customer.replace(range(70), range(120, 190))
    customer.hide(range(70, 120, 2))
    fallen = customer.evaluate()
    assert fallen.code == 1, fallen.err
    assert "regressed against run 1" in fallen.err
    db = project.database()
    [dataset] = {row["dataset"].split()[1] for row in json.loads(run("runs", "list", "--json").out)}
    baseline = find_baseline(db, "acme", dataset, "search")
    assert baseline is not None
    assert (baseline.evaluation_id, baseline.reason) == (1, "first")
    assert customer.evaluate().code == 1, "nor does the next one take it for the beginning"
    # What a person accepts is where it begins.
    assert run("runs", "accept", "3", "--by", "Ann").code == 0
    after = customer.evaluate()
    assert (after.code, "passed against run 3" in after.err) == (0, True)
    accepted = find_baseline(db, "acme", dataset, "search")
    assert accepted is not None
    assert (accepted.accepted_by, accepted.reason) == ("Ann", "accepted")


def test_a_whole_sentence_that_holds_the_reference_answer_is_told_as_right(
    project: Project, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    customer = Customer(project, run, monkeypatch, range(6))
    customer.ask_who_opened()
    customer.hide([0])
    assert customer.evaluate().code == 0
    shown = json.loads(run("runs", "show", "1", "--json").out)
    assert shown["metrics"]["lexical.answer_match"]["mean"] == 1.0
    report, _ = pages(project)
    # The one whose document is hidden is answered with another document's sentence, which has the mayor, too.
    for said in ("5 Found, answered right", "0 Found, answered wrong", "0 Not found, answered wrong"):
        assert said in report
