"""`rageval score`: a file of recorded outputs, from the command line."""

import json
from pathlib import Path

import pytest

from tests.cli.running import Run, refused

SEED_000 = [
    {
        "question": "What is the capital of France?",
        "reference_answer": "Paris",
        "answer": "The capital is Paris.",
        "contexts": ["Paris is the capital of France.", "France is in Europe."],
    }
]


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder with no settings, where anything that is written is seen."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(value: object, name: str = "outputs.json") -> Path:
    path = Path(name)
    path.write_text(value if isinstance(value, str) else json.dumps(value), encoding="utf-8")
    return path


def test_seed_000_s_file_is_scored_and_nothing_is_left_behind(run: Run, elsewhere: Path) -> None:
    file = write(SEED_000, "sample_eval.json")
    ended = run("score", file, "--model", "all-MiniLM-L6-v2", "--metrics", "embedding.*,lexical.*")
    assert ended.code == 0
    assert "read as recorded" in ended.err
    lines = {line.split()[0]: line.split() for line in ended.out.splitlines()}
    assert lines["metric"] == ["metric", "mean", "low", "high", "n", "scored", "undefined", "errors"]
    assert lines["embedding.context_relevance"][4:] == ["1", "1", "0", "0"]
    assert lines["lexical.number_match"][1:] == ["-", "-", "-", "1", "0", "1", "0"]
    assert "not measured" in ended.err
    assert [path.name for path in elsewhere.iterdir()] == ["sample_eval.json"]


@pytest.mark.slow
def test_ten_thousand_outputs_with_fifty_broken_rows(run: Run) -> None:
    """The 50 are named by row and field, the rest is scored, and the exit code says so."""
    said = [f"is {number}." for number in range(10_000)]
    rows = [{"question": f"What {it}", "reference_answer": it, "answer": it, "contexts": [it]} for it in said]
    wrong = [("answer", 7), ("contexts", "no list"), ("question", None), ("contexts", [1]), ("reference_answer", {})]
    expected = []
    for number, index in enumerate(range(0, 10_000, 200)):
        field, value = wrong[number % len(wrong)]
        rows[index] = {**rows[index], field: value}
        expected.append((index + 1, "contexts[0]" if value == [1] else field))
    ended = run("score", write(rows), "--metrics", "lexical.*,overlap.*", "--json")
    assert ended.code == 4
    found = json.loads(ended.out)
    assert [(refusal["row"], refusal["field"]) for refusal in found["refused"]] == expected
    for metric_id, summary in found["scores"].items():
        assert summary["n"] == 9_950, metric_id
        assert summary["n_error"] == 0
    assert found["scores"]["lexical.exact_match"]["mean"] == 1.0
    assert "q0" not in found["question_scores"]["lexical.exact_match"]
    assert found["question_scores"]["lexical.exact_match"]["q1"] == 1.0
    assert ended.err.count("refused: outputs.json") == 20
    assert "and 30 more rows refused" in ended.err


def test_a_missing_value_is_null_and_its_reason_told(run: Run) -> None:
    ended = run("score", write([{**SEED_000[0], "answer": None}]), "--metrics", "lexical.*", "--json")
    assert ended.code == 2
    found = json.loads(ended.out)
    assert found["question_scores"]["lexical.token_f1"] == {"q0": None}
    assert found["outcomes"]["lexical.token_f1"]["q0"]["status"] == "undefined"
    assert found["scores"]["lexical.token_f1"]["mean"] is None
    assert "nothing could be scored" in ended.err


def test_results_with_ground_truth_and_queries(run: Run) -> None:
    results = {
        "t1": {
            "query_id": "Q1",
            "top_k_chunks": [{"chunk_id": "d::1", "text": "In April 2023.", "doc_id": "d", "page": 3, "score": 0.8}],
            "answers": "It began in April 2023. [d:3]",
        }
    }
    truth = write({"Q1": {"answer": "April 2023.", "document": {"d": [3]}}}, "truth.json")
    queries = write({"Q1": "When did it begin?"}, "queries.json")
    ended = run("score", write(results), "--ground-truth", truth, "--queries", queries, "--json")
    assert ended.code == 0
    scores = json.loads(ended.out)["question_scores"]
    assert scores["retrieval.document_mrr"] == {"t1": 1.0}
    assert scores["lexical.number_match"] == {"t1": 1.0}
    assert scores["embedding.question_alignment"]["t1"] > 0.3


def test_scores_by_document_and_by_category(run: Run) -> None:
    rows = [
        {
            "question": f"Where is {number}?",
            "answers": ["Here."],
            "answer": "Here." if number else "There.",
            "evidence": [{"document_id": "atlas" if number else "diary"}],
            "category": "temporal" if number else "multi_hop",
        }
        for number in range(3)
    ]
    file = write("".join(json.dumps(row) + "\n" for row in rows), "native.jsonl")
    for by, names in (("document", ["atlas", "diary"]), ("category", ["multi_hop", "temporal"])):
        ended = run("score", file, "--metrics", "lexical.exact_match", "--by", by, "--json")
        groups = json.loads(ended.out)["breakdown"]["groups"]
        assert list(groups) == names
        counts = {group: columns["lexical.exact_match"]["n_scored"] for group, columns in groups.items()}
        assert sorted(counts.values()) == [1, 2]
    assert "atlas" in run("score", file, "--metrics", "lexical.*", "--by", "document").out
    refused(run("score", file, "--by", "colour"), "--by", "category")


def test_the_json_goes_to_a_file_that_is_never_replaced_unasked(run: Run) -> None:
    file = write(SEED_000)
    ended = run("score", file, "--metrics", "lexical.*", "--out", "scores.json")
    assert ended.code == 0
    assert "lexical.token_f1" in ended.out
    assert json.loads(Path("scores.json").read_text(encoding="utf-8"))["scores"]["lexical.token_f1"]["n"] == 1
    refused(run("score", file, "--metrics", "lexical.*", "--out", "scores.json"), "--force")
    assert run("score", file, "--metrics", "lexical.*", "--out", "scores.json", "--force").code == 0
    written = json.loads(Path("scores.json").read_text(encoding="utf-8"))
    assert (written["format"], written["k"]) == ("recorded", 5)
    assert set(written["versions"]) == set(written["scores"])
    before = Path(file).read_bytes()
    refused(run("score", file, "--out", file, "--force"), "write elsewhere")
    assert Path(file).read_bytes() == before


def test_what_the_system_failed_on_is_an_error_and_said_by_the_exit_code(run: Run) -> None:
    good = {"question": "Who?", "answers": ["Ada"], "answer": "Ada", "contexts": ["Ada did."]}
    ended = run("score", write([good, {**good, "question": "Where?", "error": "timeout"}]), "--metrics", "lexical.*")
    assert ended.code == 4
    assert "0 rows refused" in ended.err


def test_what_cannot_be_done_is_one_line(run: Run) -> None:
    file = write(SEED_000)
    refused(run("score", "absent.json"), "absent.json")
    refused(run("score", file, "--metrics", "lexicl.*"), "lexicl.*")
    refused(run("score", file, "--format", "beir"), "beir", "recorded")
    refused(run("score", file, "--map", "answer"), "FIELD=COLUMN")
    refused(run("score", file, "--queries", file), "--queries", "test-results")
    refused(run("score", write([{"a": 1}], "odd.json")), "--format")
    refused(run("score", write("", "empty.json")), "empty")


GERMAN = {
    "question": "Wann wurde die alte Brücke über den Fluss gebaut?",
    "answer": "Die alte Brücke über den Fluss wurde im Jahr 1837 von den Bürgern der Stadt gebaut.",
    "contexts": ["Die alte Brücke wurde 1837 gebaut."],
}


@pytest.mark.parametrize(
    ("rows", "metrics", "warned"),
    [
        ([GERMAN], "embedding.*", True),
        ([GERMAN] * 40 + SEED_000 * 560, "embedding.context_relevance", True),
        ([GERMAN], "overlap.*", False),
        (SEED_000, "embedding.*", False),
    ],
)
def test_an_english_model_over_other_languages_is_warned_of(run: Run, rows: list, metrics: str, warned: bool) -> None:
    ended = run("score", write(rows), "--model", "all-MiniLM-L6-v2", "--metrics", metrics, "--json")
    assert ended.code == 0, ended.err
    [*warnings] = json.loads(ended.out)["warnings"]
    assert len(warnings) == warned
    assert ("warning: all-MiniLM-L6-v2 knows English alone" in ended.err) == warned
    assert all("German" in warning for warning in warnings)
