"""`rageval trec` as a user meets it: trec_eval's own numbers on its own files, and what it says of bad ones."""

import json
import random
from collections import defaultdict
from pathlib import Path

import pytest

from rageval_dagster.errors import RagevalError
from rageval_dagster.metrics.trec import parse_measure
from tests.cli.running import Run, refused
from tests.metrics.metric_samples import DATA_DIR
from tests.pipeline.small_project import Project, documents

TREC = DATA_DIR / "trec_eval"
needs_trec_files = pytest.mark.skipif(
    not TREC.is_dir(), reason=f"no trec_eval test files in {DATA_DIR} (RAGEVAL_DATA_DIR)"
)

# Computed otherwise by trec_eval 9, on which pytrec_eval is built, than by 10; without bounds; not numbers; or only
# in trec_eval 10.
NOT_OFFERED = {
    *("11pt_avg", *(f"iprec_at_recall_{tenths / 10:.2f}" for tenths in range(11))),
    *("utility", "relstring", "runid", "rbp", "rbp_resid", "unj_5", "unj_10", "unj_20"),
}
ONLY_IN_ALL = {"num_q", "gm_map", "gm_bpref"}


def printed_by_trec_eval(name: str) -> dict[str, dict[str, str]]:
    """What stands in one of its files: {query or "all": {measure: value}}."""
    found: dict[str, dict[str, str]] = defaultdict(dict)
    for line in (TREC / name).read_text().splitlines():
        measure, query, value = line.split()
        found[query][measure] = value
    return found


def is_offered(measure: str) -> bool:
    try:
        parse_measure(measure)
    except RagevalError:
        return False
    return True


def shown(value: float) -> str:
    return str(value) if isinstance(value, int) else f"{value:.4f}"


@needs_trec_files
@pytest.mark.parametrize("name", ["out.test", "out.test.a", "out.test.aq"])
def test_trec_evals_numbers_on_its_own_files(run: Run, tmp_path: Path, name: str) -> None:
    expected = printed_by_trec_eval(name)
    listed = list(expected["all"])
    measures = [measure for measure in listed if is_offered(measure)]
    assert set(listed) - set(measures) <= NOT_OFFERED
    # In any order of lines: a run is sorted by score, then id.
    lines = (TREC / "results.test").read_text().splitlines()
    random.Random(0).shuffle(lines)
    (tmp_path / "results.test").write_text("\n".join(lines))
    options = [word for measure in measures for word in ("-m", measure)]
    ended = run("trec", TREC / "qrels.test", tmp_path / "results.test", *options, "--per-query", "--json")
    assert (ended.code, ended.err) == (0, "")
    printed = json.loads(ended.out)
    means = {measure: shown(score.get("mean", score.get("sum"))) for measure, score in printed["scores"].items()}
    assert means == {measure: expected["all"][measure] for measure in measures}
    compared = 0
    for query in expected.keys() - {"all"}:
        for measure in measures:
            if measure not in ONLY_IN_ALL:
                assert shown(printed["question_scores"][measure][query]) == expected[query][measure], (measure, query)
                compared += 1
    assert (len(measures), compared) == {
        "out.test": (18, 0),
        "out.test.a": (80, 0),
        "out.test.aq": (80, 3 * 77),
    }[name]


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    qrels, results = tmp_path / "my.qrels", tmp_path / "my.run"
    qrels.write_text("q1 0 a 1\nq1 0 b 0\nq2 0 a 2\nq2 0 b 1\n")
    results.write_text("q1 Q0 a 1 0.5 t\nq1 Q0 b 2 0.5 t\nq2 Q0 a 1 9 t\nq2 Q0 b 2 8 t\n")
    return qrels, results


def test_the_table(files: tuple[Path, Path], run: Run) -> None:
    ended = run("trec", *files, "-m", "RR", "-m", "P_2", "-m", "NumRet", "--per-query")
    assert (ended.code, ended.err) == (0, "")
    lines = [line.split() for line in ended.out.splitlines()]
    assert lines[0] == ["measure", "mean", "low", "high", "sum", "n", "scored", "undefined", "errors"]
    assert lines[1][:2] == ["RR", "0.7500"]
    assert lines[3] == ["NumRet", "-", "-", "-", "4", "2", "2", "0", "0"]
    assert lines[-2] == ["q1", "0.5000", "0.5000", "2"]
    assert lines[-1] == ["q2", "1.0000", "1.0000", "2"]


def test_without_a_choice_the_headline_measures_at_the_default_cutoff(files: tuple[Path, Path], run: Run) -> None:
    printed = json.loads(run("trec", *files, "--json").out)
    assert list(printed["scores"]) == ["P@5", "R@5", "Success@5", "RR", "nDCG@5", "nDCG@10", "AP"]
    score = printed["scores"]["RR"]
    assert (score["mean"], score["n"], score["n_scored"], score["n_undefined"], score["n_error"]) == (0.75, 2, 2, 0, 0)
    assert 0.0 <= score["ci_low"] < 0.75 < score["ci_high"] <= 1.0
    assert "question_scores" not in printed


def test_bad_lines_are_refused_by_line_and_the_rest_goes_on(files: tuple[Path, Path], run: Run) -> None:
    qrels, results = files
    qrels.write_text(qrels.read_text() + "q2 0 c many\n")
    results.write_text("q1 Q0 z 1 ?\x1b[31m t\n" + results.read_text())
    ended = run("trec", qrels, results, "-m", "RR", "--json")
    assert ended.code == 4
    assert ended.err.splitlines() == [
        "refused: my.qrels, row 5, field relevance: takes a whole number from -1000 to 1000",
        "refused: my.run, row 1, field score: takes a finite number",
    ]
    printed = json.loads(ended.out)
    assert printed["scores"]["RR"]["mean"] == 0.75
    assert printed["refused"][1] == {"file": "my.run", "row": 1, "field": "score", "reason": "takes a finite number"}


def test_what_cannot_be_scored_is_counted_and_named(files: tuple[Path, Path], run: Run) -> None:
    qrels, results = files
    qrels.write_text(qrels.read_text() + "q3 0 a 1\nq4 0 a 0\nq6 0 a 0\n")
    results.write_text(results.read_text() + "q4 Q0 a 1 1 t\nq5 Q0 a 1 1 t\nq2 Q0 a 3 -1 t\n")
    ended = run("trec", qrels, results, "-m", "RR", "--per-query")
    assert ended.code == 4, "a query that failed is a part that failed"
    assert "1 query of the qrels missing from the run: errors, outside the mean (-c counts each as 0): q3" in ended.err
    assert "2 queries without a relevant document in the qrels: undefined: q4, q6" in ended.err
    assert "1 query of the run that the qrels do not have: undefined: q5" in ended.err
    assert "1 line of the run repeated a document of the query: its best score counts" in ended.err
    header, row = ended.out.splitlines()[:2]
    assert header.endswith("errors  mean if errors were 0  if errors were 1")
    assert row.split()[0:2] + row.split()[4:] == ["RR", "0.7500", "6", "2", "3", "1", "0.5000", "0.8333"]
    assert "q3     -       the run does not have the query" in ended.out
    printed = json.loads(run("trec", qrels, results, "-m", "RR", "--per-query", "--json").out)
    statuses = {query: outcome["status"] for query, outcome in printed["outcomes"]["RR"].items()}
    assert statuses == {"q3": "error", **dict.fromkeys(("q4", "q5", "q6"), "undefined")}
    assert printed["question_scores"]["RR"] == {"q1": 0.5, "q2": 1.0, **dict.fromkeys(statuses)}
    assert (printed["missing"], printed["without_relevant"], printed["unjudged"]) == (["q3"], ["q4", "q6"], ["q5"])
    complete = run("trec", qrels, results, "-m", "RR", "-c", "--json")
    assert complete.code == 0
    score = json.loads(complete.out)["scores"]["RR"]
    assert (score["mean"], score["n_scored"], score["n_error"]) == (0.5, 3, 0)


def test_what_cannot_be_done_is_one_clear_line(files: tuple[Path, Path], run: Run, tmp_path: Path) -> None:
    qrels, results = files
    refused(run("trec", qrels, results, "-m", "ndcg@10"), "'ndcg@10'", "nDCG@10", "known: RR,")
    refused(run("trec", tmp_path / "none", results), "none cannot be read")
    refused(run("trec", results, qrels), "my.run", "row 1", "has 6 columns, not 4")
    qrels.write_text("301 0 a 1\n")
    refused(run("trec", qrels, results), "none of the 1 queries of the qrels is in the run", "'301'", "'q1'")


@pytest.mark.slow
def test_an_exported_evaluation_has_the_evaluations_own_numbers(project: Project, run: Run) -> None:
    project.ingest("acme", documents("castle"))
    evaluated = json.loads(run("evaluate", "--client", "acme", "--sample-size", 12, "--json").out)
    exported = run("runs", "export", evaluated["run_id"], "--out", project.folder).out.splitlines()
    pairs = {"P@5": "precision_at_5", "R@5": "recall_at_5", "RR": "mrr", "nDCG@10": "ndcg_at_10", "AP": "map"}
    options = [word for measure in pairs for word in ("-m", measure)]
    scores = json.loads(run("trec", *exported[:2], *options, "-c", "--json").out)["scores"]
    for theirs, ours in pairs.items():
        own = evaluated["metrics"][f"retrieval.{ours}"]
        assert scores[theirs]["mean"] == pytest.approx(own["mean"], abs=1e-12)
        assert scores[theirs]["n_scored"] == own["n_scored"] > 0
