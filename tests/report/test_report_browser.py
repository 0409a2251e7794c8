"""The report in a real browser: what it shows, that it asks nothing of anybody, and that nothing hostile runs."""

import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from rageval_dagster.gate.incidents import EndedRun, note_run
from rageval_dagster.records import Evidence, Item, Outcome
from rageval_dagster.report.files import write_client_report, write_fleet_report
from rageval_dagster.settings import Settings, load_settings
from rageval_dagster.storage.benchmark import DatasetKind
from rageval_dagster.storage.clients import ensure_client
from rageval_dagster.storage.database import Database, open_database
from rageval_dagster.storage.evaluations import update_evaluation
from rageval_dagster.storage.results import load_results
from rageval_dagster.storage.scores import save_scores, save_summaries
from rageval_dagster.storage.types import utc_now
from tests.gate import gated_history
from tests.gate.gated_history import SPEC, evaluated, held, ranks
from tests.gate.planted_incidents import evaluate
from tests.report.axe import serious_violations
from tests.storage.history_builder import make_dataset, make_items, summary

HOSTILE = '</script><script>document.title="ran"</script><img src=x onerror=\'document.title="ran"\'>"\'&`${1}{{7*7}}'
ODD = "\u202egnorw\u202c \x00\x1b[31m | a | b |\n| --- | --- |\r\n# [x](javascript:document.title='ran')"
NAME = "<script>document.title='ran'</script> & Söhne"

LOCAL = ("file:", "data:", "blob:")

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("browser")]

Open = Callable[..., Page]


def items_with_odd_ones() -> list[Item]:
    odd = [
        Item(
            question=HOSTILE,
            answers=(HOSTILE,),
            evidence=(Evidence("doc-<b>1</b>", None, "quote 0"),),
            category=HOSTILE,
        ),
        Item(question=f"odd {ODD}", answers=(ODD,), evidence=(Evidence("doc-2", None, "q"),)),
        Item(question="=1+1 in a spreadsheet?", answers=("x" * 1_000_000,), evidence=(Evidence("doc-3", None, "q"),)),
        Item(question="مرحبا بالعالم، ما هذا؟", answers=("نص",), evidence=(Evidence("doc-4", None, "q"),)),
    ]
    return [*odd, *make_items(96)]


def settings_in(folder: Path) -> Settings:
    return load_settings({"RAGEVAL_HOME": str(folder / "home")}, env_file=folder / "none.env")


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return settings_in(tmp_path)


@pytest.fixture(scope="module")
def made_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A client with a strange name, whose second night is much worse than its first, on hostile questions."""
    path = tmp_path_factory.mktemp("hostile") / "history.sqlite3"
    db = open_database(f"sqlite:///{path}")
    items = items_with_odd_ones()
    dataset = make_dataset(db, NAME, items)
    held(db, evaluated(db, dataset, "n1", ranks(items), items=items), spec=SPEC)
    # Its passages hold the trigger.
    report = evaluated(db, dataset, HOSTILE, ranks(items, 30), items=items, corpus="corpus-2")
    held(db, report, spec=SPEC)
    reasons = Outcome.scored(0.5, {"reasoning": f"reason {HOSTILE}", "unsupported_claims": [f"claim {ODD}"]})
    results = load_results(db, report.evaluation.id).values()
    save_scores(db, report.evaluation.id, [(key, "judge.faithfulness", "1", reasons) for key, _ in results])
    save_summaries(db, report.evaluation.id, [summary("judge.faithfulness", 0.5, n=len(items))])
    db.dispose()
    return path


@pytest.fixture
def history(made_once: Path, tmp_path: Path) -> Iterator[Database]:
    """A copy of it, to be changed."""
    db = open_database(f"sqlite:///{shutil.copy(made_once, tmp_path / 'hostile.sqlite3')}")
    yield db
    db.dispose()


@pytest.fixture(scope="module")
def report(made_once: Path) -> Path:
    db = open_database(f"sqlite:///{made_once}")
    path = write_client_report(db, settings_in(made_once.parent), NAME)
    db.dispose()
    return path


@pytest.fixture
def open_page(browser: Browser) -> Iterator[Open]:
    """Opens a file; at the end nothing may have been said on the console, or asked of any network."""
    wrong: list[str] = []
    contexts = []

    def open_it(path: Path, fragment: str = "", width: int = 1280, **context: Any) -> Page:
        contexts.append(browser.new_context(viewport={"width": width, "height": 900}, **context))
        page = contexts[-1].new_page()
        page.on("console", lambda message: wrong.append(message.text))
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on(
            "request",
            lambda request: None if request.url.startswith(LOCAL) else wrong.append(request.url),
        )
        page.goto(path.as_uri() + fragment)
        page.wait_for_selector("html[data-ready]", state="attached")
        return page

    yield open_it
    for each in contexts:
        each.close()
    assert wrong == []


@pytest.mark.core
def test_the_first_screen_says_what_happened(report: Path, open_page: Open) -> None:
    page = open_page(report)
    assert page.locator(".verdict").inner_text().startswith("Regressed since ")
    assert "MRR 1.00 to .70; the documents changed" in page.locator(".verdict").inner_text()
    assert page.locator(".answer").inner_text() == "Do not ship"
    why, question = page.locator("#changed-2"), page.locator("#failing-2 ~ ul li").first
    assert why.inner_text() == "Why"
    assert "evidence: rank 1 · doc-" in question.inner_text()
    for part in (page.locator(".verdict"), why, question):
        assert part.bounding_box()["y"] < 600  # pyright: ignore[reportOptionalSubscript]
    assert page.locator("h1").inner_text() == NAME
    assert page.title().startswith(NAME)


@pytest.mark.core
def test_nothing_hostile_runs_and_all_of_it_is_shown_as_text(report: Path, open_page: Open) -> None:
    hostile = next(item for item in items_with_odd_ones() if item.question == HOSTILE)
    page = open_page(report, f"#question={hostile.item_id}")
    assert HOSTILE in page.locator("#question h2").inner_text()
    assert f"{HOSTILE} text" in page.locator("#question .passage").first.inner_text()
    assert f"reason {HOSTILE}" in page.locator("#question table").inner_text()
    assert "claim" in page.locator("#question table").inner_text()
    assert page.title() != "ran"
    assert page.locator("#question img, #rows img, #rows script").count() == 0
    raw = report.read_bytes()
    assert b"\x00" not in raw
    assert b"\x1b" not in raw
    assert "\u202e".encode() not in raw
    assert raw.count(b"<script>") == 1


@pytest.mark.core
def test_triage_filters_sorting_links_and_keys(report: Path, open_page: Open) -> None:
    page = open_page(report)
    rows = page.locator("#rows tr")
    assert rows.count() == 20
    page.click("#more")
    assert rows.count() == 100
    page.select_option("#f-only", "new")
    page.wait_for_function("document.getElementById('count').textContent.startsWith('30 of 100')")
    assert "only=new" in page.url
    page.select_option("#f-only", "")
    page.fill("#f-find", "question 95")
    page.wait_for_function("document.querySelectorAll('#rows tr').length === 1")
    page.click("#clear")
    page.wait_for_function("document.getElementById('count').textContent.startsWith('100 of 100')")
    page.click("#filters summary")
    page.select_option("#f-metric", "retrieval.mrr")
    page.select_option("#f-sort", "metric")
    page.wait_for_function("document.querySelector('#rows tr td:nth-child(4)').textContent === '0.000'")
    page.locator("body").press("j")
    page.wait_for_selector("#question:not([hidden])")
    first = page.url
    page.locator("body").press("j")
    page.wait_for_function("url => location.href !== url", arg=first)
    page.locator("body").press("k")
    page.wait_for_function("url => location.href === url", arg=first)
    again = open_page(Path(first.split("#")[0].removeprefix("file://")), "#" + first.split("#")[1])
    assert again.locator("#question h2").inner_text() == page.locator("#question h2").inner_text()
    page.locator("body").press("Escape")
    page.wait_for_selector("#question", state="hidden")


def test_what_is_filtered_is_csv_without_formulas(history: Database, settings: Settings, open_page: Open) -> None:
    page = open_page(write_client_report(history, settings, NAME), "#find=spreadsheet")
    page.click("#filters summary")
    with page.expect_download() as saved:
        page.click("#csv")
    text = Path(saved.value.path()).read_bytes().decode("utf-8-sig")
    lines = text.split("\r\n")
    assert lines[0].startswith('"item_id","question"')
    assert '"\'=1+1 in a spreadsheet?"' in lines[1]
    assert len(lines) == 3
    assert len(text) < 10_000  # a megabyte is cut, and says so
    assert "more characters" in text


@pytest.mark.core
@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_no_serious_violation_of_accessibility(report: Path, open_page: Open, width: int, scheme: str) -> None:
    for fragment in ("", f"#question={make_items(96)[0].item_id}"):
        page = open_page(report, fragment, width=width, color_scheme=scheme)
        assert serious_violations(page) == []
        assert page.evaluate("document.documentElement.scrollWidth") <= width  # nothing to scroll sideways for


@pytest.fixture
def several(sqlite_db: Database) -> Database:
    """A client with two datasets: runs 1 and 2 on `human`, runs 3 and 4, which is worse, on `other`."""
    items = make_items(60)
    for name, wrong in (("human", 0), ("other", 30)):
        dataset = make_dataset(sqlite_db, "acme", [*items, *make_items(1, name)], name=name)
        for night, count in (("n1", 0), ("n2", wrong)):
            held(sqlite_db, evaluated(sqlite_db, dataset, night, ranks(items, count), items=items), spec=SPEC)
    return sqlite_db


def shown_runs(page: Page) -> list[str | None]:
    return [each.get_attribute("data-run") for each in page.locator("article:visible").all()]


def test_a_link_to_an_older_run_leads_to_its_dataset(several: Database, settings: Settings, open_page: Open) -> None:
    report = write_client_report(several, settings, "acme")
    assert shown_runs(open_page(report)) == ["4"]  # what got worse comes first
    page = open_page(report, "#run=1")
    assert shown_runs(page) == ["2"]
    assert page.locator(".runs a[aria-current=true]").inner_text().startswith("human /")
    assert "Run 1 is not in this report; this is run 2" in page.locator("#gone").inner_text()
    page = open_page(report, "#run=2")
    assert shown_runs(page) == ["2"]
    assert page.locator("#gone").is_hidden()


def test_a_link_to_what_is_not_in_the_report_says_so(several: Database, settings: Settings, open_page: Open) -> None:
    report = write_client_report(several, settings, "acme")
    page = open_page(report, "#run=99")
    assert shown_runs(page) == []
    assert page.locator("#questions").is_hidden()
    assert "Run 99 is not in this report" in page.locator("#gone").inner_text()
    assert serious_violations(page) == []
    page.locator("#gone a").click()
    page.wait_for_selector("#questions:not([hidden])")
    assert shown_runs(page) == ["4"]
    page = open_page(report, "#run=2&question=deleted")
    assert "Question deleted is not among those of run 2" in page.locator("#gone").inner_text()


def test_a_link_made_in_the_report_names_its_run(several: Database, settings: Settings, open_page: Open) -> None:
    page = open_page(write_client_report(several, settings, "acme"))
    page.locator("#rows a").first.click()
    page.wait_for_selector("#question:not([hidden])")
    assert "run=4" in page.url


def test_links_that_filter_lead_to_the_questions(several: Database, settings: Settings, open_page: Open) -> None:
    page = open_page(write_client_report(several, settings, "acme"), "#run=2")
    for link in (".triage a", "#groups-2 .to-list", "#metrics-2 .to-list", ".skip"):
        page.evaluate("scrollTo(0, 0)")
        page.evaluate("document.querySelectorAll('details').forEach(each => { each.open = true; })")
        found = page.locator(f"article:visible {link}" if link != ".skip" else link)
        if found.count() == 0:
            assert link == ".triage a"  # nothing is known of right answers here
            continue
        found.first.focus()
        page.keyboard.press("Enter")
        page.wait_for_function(
            "() => document.getElementById('questions').getBoundingClientRect().top < innerHeight - 100"
        )
        assert shown_runs(page) == ["2"]


def test_questions_of_no_known_language_can_be_found(several: Database, settings: Settings, open_page: Open) -> None:
    page = open_page(write_client_report(several, settings, "acme"), "#run=2&language=not+told")
    assert page.locator("#rows tr").count() > 0


def test_why_a_metric_failed_can_be_read_at_the_question(
    sqlite_db: Database, settings: Settings, open_page: Open
) -> None:
    items = make_items(3)
    dataset = make_dataset(sqlite_db, "acme", items)
    values = {**ranks(items), items[1].item_id: None}
    held(sqlite_db, evaluated(sqlite_db, dataset, "n1", values, items=items), spec=SPEC)
    report = write_client_report(sqlite_db, settings, "acme")
    for width in (1280, 390):
        page = open_page(report, f"#question={items[1].item_id}", width=width)
        row = page.locator("#question tbody tr", has_text="MRR")
        assert row.locator("td").nth(2).inner_text() == "error: timeout"
        assert row.locator("td").nth(2).bounding_box()["x"] < width  # pyright: ignore[reportOptionalSubscript]


def test_where_the_system_failed_no_rank_is_said_and_nothing_undefined_stands_in_the_page(
    sqlite_db: Database, settings: Settings, open_page: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    items = make_items(3)
    real = gated_history.retrieval_of
    monkeypatch.setattr(
        gated_history,
        "retrieval_of",
        lambda item, salt: real(item, 0, "timeout: no answer", salt) if item is items[1] else real(item, salt=salt),
    )
    dataset = make_dataset(sqlite_db, "acme", items)
    held(sqlite_db, evaluated(sqlite_db, dataset, "n1", ranks(items), items=items), spec=SPEC)
    page = open_page(write_client_report(sqlite_db, settings, "acme"))
    failed = page.locator("#rows tr", has_text="system failed")
    assert failed.locator("td").nth(2).inner_text() == "–"
    assert page.locator("#gone").text_content() == ""
    page = open_page(write_client_report(sqlite_db, settings, "acme"), "#question=deleted")
    assert (page.locator("#gone").text_content() or "").strip() == "Question deleted is not among those of run 1."


BROKEN_WORDS = """() => {
  const broken = [], texts = document.createTreeWalker(document.querySelector("main"), NodeFilter.SHOW_TEXT);
  for (let text = texts.nextNode(); text; text = texts.nextNode())
    if (!text.parentElement.closest("pre, code, script, [hidden]"))
    for (const word of text.data.matchAll(/[^\\s–-]+/g)) {
      const range = document.createRange();
      range.setStart(text, word.index);
      range.setEnd(text, word.index + word[0].length);
      if (new Set([...range.getClientRects()].map(box => box.top)).size > 1) broken.push(word[0]);
    }
  return broken;
}"""


@pytest.mark.parametrize("width", [1280, 390])
def test_no_word_is_broken_and_nothing_is_wider_than_the_page_also_where_all_is_folded_out(
    several: Database, settings: Settings, open_page: Open, width: int
) -> None:
    low = [summary("citation.coverage", 0.1), summary("embedding.answer_hallucination", 0.9)]
    save_summaries(several, 4, low)
    page = open_page(write_client_report(several, settings, "acme"), width=width)
    page.evaluate("document.querySelectorAll('details').forEach(each => { each.open = true; })")
    assert "Require a citation" in page.locator("#advice-4").inner_text()
    assert page.evaluate(BROKEN_WORDS) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert serious_violations(page) == []


def test_printed_it_has_everything_that_folds_out_and_no_controls(
    several: Database, settings: Settings, open_page: Open, tmp_path: Path
) -> None:
    page = open_page(write_client_report(several, settings, "acme"))
    assert not page.locator("#metrics-4 table").is_visible()
    page.pdf(path=tmp_path / "report.pdf")
    page.emulate_media(media="print")
    assert page.locator("#metrics-4 table").is_visible()
    assert not page.locator(".filters").first.is_visible()


@pytest.mark.parametrize("kind", ["generated", "imported"])
def test_too_few_questions_come_with_what_to_do(
    sqlite_db: Database, settings: Settings, open_page: Open, kind: DatasetKind
) -> None:
    items = make_items(20)
    dataset = make_dataset(sqlite_db, "acme", items, kind=kind)
    spec = replace(SPEC, effect=settings.gate_effect)
    for night, wrong in (("n1", 0), ("n2", 1)):
        held(sqlite_db, evaluated(sqlite_db, dataset, night, ranks(items, wrong), items=items), spec=spec)
    remedy = open_page(write_client_report(sqlite_db, settings, "acme")).locator(".remedy").inner_text()
    assert "To see one of .25, ask about " in remedy
    writes = re.search(r"rageval datasets generate --client acme --sample-size \d+", remedy)
    assert bool(writes) == (kind == "generated"), "it writes no questions for a dataset that was imported"
    assert "rageval datasets import" in remedy
    assert not re.search("[A-Z]+_[A-Z]+", remedy), "the reader sets questions, not variables"


@pytest.mark.parametrize("width", [1280, 390])
def test_a_leak_and_a_failed_run_stand_before_the_verdict(
    sqlite_db: Database, settings: Settings, open_page: Open, width: int
) -> None:
    items = make_items(20)
    dataset = make_dataset(sqlite_db, "acme", items)
    for system in ("dense", "assistant"):
        held(sqlite_db, evaluated(sqlite_db, dataset, "n1", ranks(items), items=items, system=system))
    update_evaluation(sqlite_db, 2, foreign_chunks=3)
    note_run(sqlite_db, "acme", EndedRun("run-1", True, "metric_scores", died=True), utc_now())
    page = open_page(write_client_report(sqlite_db, settings, "acme"), "#run=1", width=width)
    leak, failed = page.locator(".alarms p").all_inner_texts()
    assert leak.startswith("System assistant returned 3 passages of other clients for ")
    assert failed.startswith("The last run failed while scoring the answers: its process died. ")
    top = page.locator(".alarms").bounding_box(), page.locator(".lead:visible").bounding_box()
    assert top[0]["y"] < top[1]["y"]  # pyright: ignore[reportOptionalSubscript]
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert serious_violations(page) == []
    page.click(".alarms a")
    assert shown_runs(page) == ["2"]
    assert page.locator(".answer:visible").inner_text() == "Do not ship"
    ensure_client(sqlite_db, "new")
    fleet = open_page(write_fleet_report(sqlite_db, settings), width=width)
    said = [" ".join(each.split()) for each in fleet.locator(".troubles li").all_inner_texts()]
    assert said == ["Returned passages of other clients acme", "Last run failed acme"]
    assert fleet.evaluate(BROKEN_WORDS) == []
    assert serious_violations(fleet) == []
    for each in ("leak", "failed run"):
        fleet.select_option("#verdict", each)
        assert fleet.locator("tbody tr:visible").count() == 1
    fleet.locator(".troubles span a").first.click()
    fleet.wait_for_selector("html[data-ready] .alarms", state="attached")


def test_redacted_it_holds_no_question_or_answer(history: Database, settings: Settings, open_page: Open) -> None:
    path = write_client_report(history, settings, NAME, redact=True)
    assert path.name.endswith(".redacted.html")
    page = open_page(path, f"#question={make_items(1)[0].item_id}")
    shown = page.locator("body").inner_text()
    assert make_items(1)[0].item_id in shown
    assert not [word for word in ("question 1", "answer 1", "doc-", "quote", HOSTILE) if word in shown]


def test_one_page_of_all_clients_links_to_theirs(history: Database, settings: Settings, open_page: Open) -> None:
    own = write_client_report(history, settings, NAME)
    make_dataset(history, "other", make_items(3))
    fleet = write_fleet_report(history, settings)
    page = open_page(fleet)
    assert page.locator(".answer").inner_text() == "1 of 2 clients needs attention"
    assert page.locator("tbody tr").count() == 2
    assert serious_violations(page) == []
    page.fill("#find", "other")
    assert page.locator("tbody tr:visible").count() == 1
    page.fill("#find", "")
    page.locator("tbody tr a").first.click()
    page.wait_for_selector("html[data-ready]", state="attached")
    assert page.url.startswith(own.as_uri())


def test_of_very_many_clients_the_worst_are_shown_first_and_all_can_be_found(
    sqlite_db: Database, settings: Settings, open_page: Open
) -> None:
    for number in range(60):
        ensure_client(sqlite_db, f"client-{number}")
    evaluate(sqlite_db, "client-59", foreign=1)
    page = open_page(write_fleet_report(sqlite_db, settings))
    rows = page.locator("tbody tr:visible")
    assert rows.count() == 50
    assert rows.first.inner_text().startswith("client-59")
    page.click("#more")
    assert rows.count() == 60
    page.fill("#find", "client-58")
    assert rows.count() == 1
    page.fill("#find", "")
    page.click("text=Returned passages of other clients")
    page.wait_for_function("document.querySelectorAll('tbody tr:not([hidden])').length === 1")
