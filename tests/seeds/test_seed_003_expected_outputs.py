"""Seed 003: answers against expected outputs by words, numbers and sources, checks that single questions declare, and
RAGAS's four metrics where a model judges."""

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from rageval_dagster import score
from rageval_dagster.telling.advice import advised
from tests.cli.running import Run
from tests.llm.scripted_model import fences
from tests.llm.scripted_server import ScriptedServer
from tests.seeds.conftest import History
from tests.storage.history_builder import summary

LEXICAL = ("exact_match", "keyword_coverage", "number_match", "answer_completeness", "source_citation")


def lexical(answer: str, expected: str) -> dict[str, float]:
    rows = [{"question": "What is it?", "reference_answer": expected, "answer": answer, "contexts": []}]
    found = score(rows, ["lexical.*"])["question_scores"]
    return {name: found[f"lexical.{name}"]["q0"] for name in LEXICAL}


@pytest.mark.parametrize(
    ("metric", "answer", "expected", "value"),
    [
        # case and white space aside, the texts are equal
        ("exact_match", "the  PREMIUM\n is $604 ", "The premium is $604", 1),
        ("exact_match", "The premium is $604.", "The premium is $604", 0),
        # the share of the expected phrases, numbers and words: here "New York", 293, "york", "base" and "rate"
        ("keyword_coverage", "New York", "New York: base rate 293", 2 / 5),
        ("keyword_coverage", "the base of 293", "New York: base rate 293", 2 / 5),
        ("keyword_coverage", "nothing of it", "New York: base rate 293", 0),
        (
            "keyword_coverage",
            "The rate change for Territory 118 is 0.305%",
            "Territory 118: a rate change of 0.305%",
            1,
        ),
        # the share of the expected numbers
        ("number_match", "The premium is $604", "$604.00", 1),
        ("number_match", "1,234 and 5%", "1234 plus 5 % plus 6 plus 7", 2 / 4),
        ("number_match", "0.305", "0.305%", 0),
        ("number_match", "0.133%", "-0.133%", 0),
        # the mean of words / expected words, at most 1, and of keyword coverage; both expected words are keywords
        ("answer_completeness", "Paris", "Paris, France", (1 / 2 + 1 / 2) / 2),
        ("answer_completeness", "Paris is the town", "Paris, France", (1 + 1 / 2) / 2),
        # a third for each kind of source indicator, of three at most
        ("source_citation", "It is 604.", "604", 0),
        ("source_citation", "According to the manual it is 604.", "604", 1 / 3),
        ("source_citation", "Page 3, page 4.", "604", 1 / 3),
        ("source_citation", "Table: 4, taken from it.", "604", 2 / 3),
        ("source_citation", "Based on the document, page 3.", "604", 1),
        ("source_citation", "Source: the document, page 3, table: 4, from a pdf.", "604", 1),
    ],
)
def test_an_answer_against_the_expected_output(metric: str, answer: str, expected: str, value: float) -> None:
    assert lexical(answer, expected)[metric] == pytest.approx(value)


# --- what single questions declare ------------------------------------------------------------------------------------

FACTS = {
    "has_yes": {"kind": "fact", "expect": "yes"},
    "has_territory_118": {"kind": "fact", "expect": "Territory 118"},
    "has_territory_117": {"kind": "fact", "expect": "Territory 117"},
    "has_rate_0_305": {"kind": "number", "expect": "0.305%"},
    "has_rate_neg_0_133": {"kind": "number", "expect": "-0.133%"},
    "has_grg_51": {"kind": "fact", "pattern": r"\bGRG[ -]?51\b"},
    "has_grg_15": {"kind": "fact", "pattern": r"\bGRG[ -]?15\b"},
    "has_difference_36": {"kind": "fact", "any_of": [36, "exceeds 30"]},
}
EXPECTED = [
    {
        "question_id": "EF_1",
        "question": "List all rating plan rules.",
        "expected_output": "* Rule C-1: Base Rates\n* Rule C-2: Territories\n* Rule C-7: Groups\n* Rounding",
        "checks": [{"name": "rules", "kind": "list", "pattern": r"Rule C-\d+"}],
    },
    {
        "question_id": "EF_2",
        "question": "Do the territories and their groups differ?",
        "expected_output": "Yes, by 36.",
        "checks": [{"name": name, **check} for name, check in FACTS.items()],
    },
    {
        "question_id": "EF_3",
        "question": "What is the premium?",
        "expected_output": "$604",
        "checks": [
            {
                "name": "premium",
                "kind": "calculation",
                "expect": 604,
                "intermediates": {"has_293": 293, "has_2_061": 2.061},
            }
        ],
    },
]


def checked(run: Run, **answers: str) -> dict[str, Any]:
    """What `rageval score` prints of these answers to the questions of these ids."""
    asked = [row for row in EXPECTED if row["question_id"] in answers]
    Path("expected.json").write_text(json.dumps(asked), encoding="utf-8")
    Path("answers.json").write_text(json.dumps(answers), encoding="utf-8")
    ended = run("score", "expected.json", "--answers", "answers.json", "--metrics", "checks.*", "--json")
    assert ended.code == 0, ended.err
    return json.loads(ended.out)


@pytest.mark.parametrize(
    ("answer", "rules_found"),
    [
        ("* Rule C-1\n* Rule C-2\n* Rule C-7\n* Rounding", 4),
        ("They are rule c-1, **Rule C-7** and rounding.", 3),
        ("Rule C-10 and Rule C-21", 0),
        ("There are four rules.", 0),
    ],
)
def test_ef_1_counts_the_rules_that_are_listed(run: Run, answer: str, rules_found: int) -> None:
    """Those that the pattern finds in the expected list, and the entries in which it finds none."""
    found = checked(run, EF_1=answer)
    assert found["question_scores"]["checks.list_coverage"] == {"EF_1": rules_found / 4}
    detail = found["details"]["checks.list_coverage"]["EF_1"]
    assert detail["counts"] == {"rules": {"found": rules_found, "expected": 4}}


@pytest.mark.parametrize(
    ("answer", "missing"),
    [
        ("Yes. Territory 118: 0.305%, Territory 117: -0.133%. GRG 51 - GRG 15 = 36.", ()),
        ("Yes: territory 118 (+0.305 %), territory 117 (−0.133 %), GRG-51 and GRG 15: it exceeds 30.", ()),
        (
            "No. Territory 118: 0.305, Territory 117: 0.133%. GRG 510 and GRG 15: 136.",
            ("has_yes", "has_rate_0_305", "has_rate_neg_0_133", "has_grg_51", "has_difference_36"),
        ),
        ("Nothing is known.", tuple(FACTS)),
    ],
)
def test_ef_2_scores_the_share_of_eight_facts(run: Run, answer: str, missing: tuple[str, ...]) -> None:
    found = checked(run, EF_2=answer)
    assert found["question_scores"]["checks.fact_score"] == {"EF_2": (8 - len(missing)) / 8}
    facts = found["details"]["checks.fact_score"]["EF_2"]["checks"]
    assert facts == {name: float(name not in missing) for name in FACTS}


@pytest.mark.parametrize(
    ("answer", "is_correct", "has_604", "has_293", "has_2_061", "has_calculation", "cannot_calculate"),
    [
        ("$293 × 2.061 = $604", 1, True, True, True, True, False),
        ("Multiply 293 by 2.061 to get $604.00", 1, True, True, True, True, False),
        ("293 * 2.061 = 603", 0, False, True, True, True, False),
        ("The premium is $604", 1, True, False, False, False, False),
        ("I cannot calculate it, but others say $604.", 0, True, False, False, False, True),
    ],
)
def test_ef_3_is_correct_with_the_result_and_without_an_excuse(
    run: Run,
    answer: str,
    is_correct: int,
    has_604: bool,
    has_293: bool,
    has_2_061: bool,
    has_calculation: bool,
    cannot_calculate: bool,
) -> None:
    found = checked(run, EF_3=answer)
    assert found["question_scores"]["checks.calculation_correct"] == {"EF_3": is_correct}
    assert found["details"]["checks.calculation_correct"]["EF_3"]["reported"]["premium"] == {
        "has_result": has_604,
        "has_forbidden_phrase": cannot_calculate,
        "shows_steps": has_calculation,
        "intermediates": {"has_293": has_293, "has_2_061": has_2_061},
    }


def test_checks_apply_by_question_and_a_table_can_hold_them(run: Run) -> None:
    answers = {"EF_1": "Rule C-1, Rule C-2, rounding", "EF_2": "Yes", "EF_3": "$604"}
    as_json = checked(run, **answers)["question_scores"]
    with Path("expected.csv").open("w", encoding="utf-8", newline="") as file:
        table = csv.DictWriter(file, list(EXPECTED[0]))
        table.writeheader()
        table.writerows({**row, "checks": json.dumps(row["checks"])} for row in EXPECTED)
    ended = run("score", "expected.csv", "--answers", "answers.json", "--metrics", "checks.*", "--json")
    assert json.loads(ended.out)["question_scores"] == as_json
    assert as_json == {
        "checks.list_coverage": {"EF_1": 3 / 4, "EF_2": None, "EF_3": None},
        "checks.fact_score": {"EF_1": None, "EF_2": 1 / 8, "EF_3": None},
        "checks.calculation_correct": {"EF_1": None, "EF_2": None, "EF_3": 1.0},
    }


# --- RAGAS's metrics --------------------------------------------------------------------------------------------------

QUESTION, ANSWER = "Where is the tower?", "It is in Avon. It is red. It is tall."
TRUE = {"It is in Avon.", "It is tall.", "The tower is in Avon.", "Avon has a tower.", "The tower is tall."}
"""Of claims, reference statements and contexts those that the judge finds supported or useful."""

CONTEXTS = ["The tower is tall.", "Cheese is old.", "Avon has a tower."]
REFERENCE = "The tower is in Avon. It was built in 1801."
WRITTEN = ["Where does it stand?", "What is in Avon?", "What is red?"]
VECTORS = {QUESTION: (1, 0), WRITTEN[0]: (4, 3), WRITTEN[1]: (3, 4), WRITTEN[2]: (0, 1)}  # cosines .8, .6 and 0


def ragas_judge(body: dict[str, Any]) -> str:
    user, schema = body["messages"][-1]["content"], body["response_format"]["json_schema"]["schema"]
    if schema["title"] == "claims":
        [text] = fences(user, "text").values()
        return json.dumps({"claims": [f"{claim}." for claim in text.rstrip(".").split(". ")]})
    if schema["title"] == "questions":
        return json.dumps({"evasive": False, "questions": WRITTEN})
    asked = fences(user, "claim") or fences(user, "statement") or fences(user, "context")
    name = next(key for key in ("useful", "supported") if key in json.dumps(schema))
    verdicts = [{"number": number, "reason": "", name: text in TRUE} for number, text in asked.items()]
    return json.dumps({"verdicts": verdicts})


def test_ragas_s_four_metrics_where_a_model_judges(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    row = {"user_input": QUESTION, "response": ANSWER, "retrieved_contexts": CONTEXTS, "reference": REFERENCE}
    Path("ragas.jsonl").write_text(json.dumps(row) + "\n", encoding="utf-8")
    with ScriptedServer(ragas_judge, vectors=VECTORS) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        monkeypatch.setenv("RAGEVAL_JUDGE_MODEL", "judge")
        ended = run("score", "ragas.jsonl", "--model", "openai:known", "--metrics", "claims.*", "--json")
    assert ended.code == 0, ended.err
    means = {name: summary["mean"] for name, summary in json.loads(ended.out)["scores"].items()}
    assert means["claims.faithfulness"] == pytest.approx(2 / 3)  # two of the answer's three claims
    assert means["claims.answer_relevancy"] == pytest.approx((0.8 + 0.6 + 0) / 3)
    # Useful contexts at ranks 1 and 3: the mean of the precisions there.
    assert means["claims.context_precision"] == pytest.approx((1 / 1 + 2 / 3) / 2)
    assert means["claims.context_recall"] == pytest.approx(1 / 2)  # one of the reference's two sentences


def test_ragas_s_metrics_are_not_run_without_a_judge(run: Run) -> None:
    row = {"user_input": QUESTION, "response": ANSWER, "retrieved_contexts": CONTEXTS, "reference": REFERENCE}
    Path("ragas.jsonl").write_text(json.dumps(row) + "\n", encoding="utf-8")
    ended = run("score", "ragas.jsonl", "--metrics", "*.faithfulness", "--json")
    assert set(json.loads(ended.out)["scores"]) == {"overlap.faithfulness"}
    rows = {row["metric"]: row["runs"] for row in json.loads(run("metrics", "list", "--json").out)}
    assert not any(runs for name, runs in rows.items() if name.startswith("claims."))


# --- the whole of it --------------------------------------------------------------------------------------------------


def test_an_evaluation_s_answers_are_scored_again_fast(run: Run, history: History) -> None:
    """Without contexts or a model: the seed's fast mode over cached results."""
    asked = len(history.server.requests)
    ended = run("evaluate", "--client", "acme", "--dataset", "1", "--system", "dense", "--fast", "--json")
    assert ended.code == 0, ended.err
    again = json.loads(ended.out)["scores"]
    stored = json.loads(run("runs", "show", "1", "--json").out)["metrics"]
    assert [again[f"lexical.{name}"]["mean"] for name in LEXICAL] == pytest.approx(
        [stored[f"lexical.{name}"]["mean"] for name in LEXICAL]
    )
    assert not any(name.startswith(("retrieval.", "embedding.", "claims.")) for name in again)
    assert len(history.server.requests) == asked


def test_a_run_is_compared_with_a_baseline_of_another_retriever(run: Run, history: History) -> None:
    found = json.loads(run("runs", "compare", "1", "2", "--json").out)
    assert [change["what"] for change in found["changes"]] == ["system"]
    [mrr] = [row for row in found["metrics"] if row["metric_id"] == "retrieval.mrr"]
    assert mrr["difference"] == pytest.approx(mrr["mean"] - mrr["baseline_mean"])


@pytest.mark.parametrize(
    ("low", "high"),
    [
        ("lexical.keyword_coverage", "lexical.exact_match"),
        ("lexical.exact_match", "lexical.keyword_coverage"),
        ("lexical.number_match", "lexical.keyword_coverage"),
        ("lexical.source_citation", None),
        ("claims.faithfulness", "lexical.keyword_coverage"),
    ],
)
def test_what_a_low_metric_beside_a_high_one_means_is_said(low: str, high: str | None) -> None:
    means = [summary(low, 0.2), *([summary(high, 0.9)] if high else [])]
    [found] = advised({each.metric_id: each for each in means}, 5, {})
    assert (found.low, found.high) == ([low], [high] if high else [])
    assert "003" in found.advice.source
