"""The measures of TREC runs: their names, their plain definitions, and three implementations that have to agree."""

import math
import random

import ir_measures
import pytest
import pytrec_eval
from hypothesis import given, settings
from hypothesis import strategies as st
from metric_samples import make_result, plain_measures

from rageval_dagster.benchmark.trec_files import read_qrels, read_run, write_trec
from rageval_dagster.errors import RagevalError
from rageval_dagster.metrics import retrieval
from rageval_dagster.metrics.interface import MetricOptions, Tools
from rageval_dagster.metrics.registry import compute_scores
from rageval_dagster.metrics.trec import DEFAULT_MEASURES, KNOWN, RunScores, parse_measure, ranking, score_run

K = 5
FAMILY = {
    f"precision_at_{K}": f"P@{K}",
    f"recall_at_{K}": f"R@{K}",
    f"hit_rate_at_{K}": f"Success@{K}",
    "mrr": "RR",
    f"ndcg_at_{K}": f"nDCG@{K}",
    "ndcg_at_10": "nDCG@10",
    "map": "AP",
}
EVERY = [
    name.replace("@k", "@3").replace("Rprec_mult_k", "Rprec_mult_0.50").replace("_k", "_3")
    if name.endswith(("@k", "_k"))
    else name
    for name in KNOWN
]


def score(qrels, run, *measures, complete=False) -> RunScores:
    return score_run(qrels, run, [parse_measure(name) for name in measures or DEFAULT_MEASURES], complete=complete)


def values(scores, name):
    return {query: outcome.value for query, outcome in scores.outcomes[name].items()}


# --- names -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ("P@5", "P_5"),
        ("Precision@5", "P.5"),
        ("Recall@05", "recall_5"),
        ("MRR", "recip_rank"),
        ("nDCG", "ndcg"),
        ("NDCG@10", "ndcg_cut_10"),
        ("AP", "map"),
        ("MAP@20", "map_cut_20"),
        ("Success@1", "success_1"),
        ("BPref", "bpref"),
        ("SetAP", "set_map"),
        ("NumRelRet", "num_rel_ret"),
    ],
)
def test_both_spellings_are_one_measure(ours, theirs):
    first, second = parse_measure(ours), parse_measure(theirs)
    assert (first.trec_name, first.aggregate) == (second.trec_name, second.aggregate)
    assert (first.name, second.name) == (ours, theirs)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("ndcg@10", "the nearest is nDCG@10"),
        ("recal_100", "the nearest is recall_100"),
        ("reciprocal_rank", "the nearest is recip_rank"),
        ("P@0", "takes a whole number from 1"),
        ("P@2.5", "takes a whole number from 1"),
        ("P@9999999999", "takes a whole number from 1"),
        ("P", "needs a cutoff, as in P@5"),
        ("ndcg_cut", "needs a cutoff, as in ndcg_cut_5"),
        ("Rprec_mult_0", "takes a factor from 0.01"),
        ("AP(rel=2)", "no measure is called 'AP\\(rel=2\\)'"),
        ("", "no measure is called ''"),
        ("iprec_at_recall_0.10", "no measure is called"),
    ],
)
def test_an_unknown_measure_is_one_clear_error(name, words):
    with pytest.raises(RagevalError, match=words):
        parse_measure(name)


# --- the definitions -------------------------------------------------------------------------------------------------


documents = st.sampled_from([f"d{number}" for number in range(12)])
# Few distinct scores, so that most lists have ties; the last two differ in double precision only.
runs = st.dictionaries(documents, st.sampled_from([-1.0, 0.0, 0.5, 2.0, 2.0 + 1e-12]), min_size=1)
judgements = st.dictionaries(documents, st.integers(-2, 3), min_size=1)
queries = st.dictionaries(st.sampled_from(["1", "2", "no_query"]), st.tuples(runs, judgements), min_size=1)


@settings(max_examples=100, deadline=None)
@given(queries, st.integers(1, 12))
def test_equal_to_the_plain_definitions_whatever_the_ties(drawn, k):
    run = {query: scores for query, (scores, _) in drawn.items()}
    qrels = {query: judged for query, (_, judged) in drawn.items()}
    names = list(plain_measures(["d0"], {"d0": 1}, k))
    found = score(qrels, run, *names)
    for query in drawn:
        if not any(grade > 0 for grade in qrels[query].values()):
            assert {found.outcomes[name][query].status for name in names} == {"undefined"}
            continue
        ranked = sorted(sorted(run[query], reverse=True), key=lambda document: -run[query][document])
        for name, expected in plain_measures(ranked, qrels[query], k).items():
            assert values(found, name)[query] == pytest.approx(expected, abs=1e-9), name


@settings(max_examples=100, deadline=None)
@given(queries, st.integers(1, 12))
def test_equal_to_the_retrieval_family_for_the_same_ranking(drawn, k):
    run = {query: scores for query, (scores, _) in drawn.items()}
    qrels = {query: {key: min(grade, 1) for key, grade in judged.items()} for query, (_, judged) in drawn.items()}
    results = [
        make_result(ranking(run[query]), [key for key, grade in qrels[query].items() if grade == 1], k=k)
        for query in drawn
    ]
    family = compute_scores(retrieval.metrics(MetricOptions(k)), results, Tools())
    pairs = {ours.replace(f"_{K}", f"_{k}"): theirs.replace(f"@{K}", f"@{k}") for ours, theirs in FAMILY.items()}
    found = score(qrels, run, *pairs.values())
    for ours, theirs in pairs.items():
        expected = [outcome.value for outcome in family[f"retrieval.{ours}"]]
        assert [found.outcomes[theirs][query].value for query in drawn] == expected


@settings(max_examples=50, deadline=None)
@given(queries)
def test_every_measure_is_within_0_and_1_or_counts(drawn):
    run = {query: scores for query, (scores, _) in drawn.items()}
    qrels = {query: judged for query, (_, judged) in drawn.items()}
    found = score(qrels, run, *EVERY)
    for outcomes in found.outcomes.values():
        assert all(outcome.value is None or 0.0 <= outcome.value <= 1.0 for outcome in outcomes.values())
    assert found.counts["num_ret"] == {query: len(scores) for query, scores in run.items()}
    for summary in found.summaries.values():
        assert summary.mean is None or 0.0 <= summary.mean <= 1.0


# --- what cannot be scored -------------------------------------------------------------------------------------------

QRELS = {"found": {"a": 1}, "missing": {"a": 1, "b": 1}, "nothing relevant": {"a": 0}, "neither": {"a": 0}}
RUN = {"found": {"a": 1.0}, "nothing relevant": {"a": 1.0}, "not judged": {"a": 1.0}}


def test_a_query_that_the_run_lacks_is_an_error_outside_the_mean():
    found = score(QRELS, RUN, "RR")
    summary = found.summaries["RR"]
    assert (summary.n, summary.n_scored, summary.n_undefined, summary.n_error) == (5, 1, 3, 1)
    assert (summary.mean, summary.worst_low, summary.worst_high) == (1.0, 0.5, 1.0)
    assert found.missing == ["missing"]
    assert found.without_relevant == ["nothing relevant", "neither"]
    assert found.unjudged == ["not judged"]
    assert {query: outcome.status for query, outcome in found.outcomes["RR"].items()} == {
        "found": "scored",
        "missing": "error",
        "nothing relevant": "undefined",
        "neither": "undefined",
        "not judged": "undefined",
    }


def test_complete_counts_it_as_0():
    found = score(QRELS, RUN, "RR", "NumQ", "NumRel", "NumRet", complete=True)
    summary = found.summaries["RR"]
    assert (summary.n_scored, summary.n_undefined, summary.n_error, summary.mean) == (2, 3, 0, 0.5)
    sums = {name: sum(counts.values()) for name, counts in found.counts.items()}
    assert sums == {"NumQ": 4, "NumRel": 3, "NumRet": 2}
    both = score(QRELS, RUN, "NumQ", "NumRel", "NumRet")
    assert {name: sum(counts.values()) for name, counts in both.counts.items()} == {"NumQ": 2, "NumRel": 1, "NumRet": 2}


def test_files_that_do_not_belong_together_are_one_clear_error():
    with pytest.raises(RagevalError, match=r"none of the 1 queries of the qrels is in the run .*'q1'.*'1'"):
        score({"q1": {"a": 1}}, {"1": {"a": 1.0}}, complete=True)


def test_a_geometric_mean_is_one_with_its_interval_around_it():
    qrels = {str(number): {"a": 1} for number in range(8)}
    run = {str(number): {"a": 0.0, **dict.fromkeys("bcdefgh"[:number], 1.0)} for number in range(8)}
    run["7"].pop("a")
    summary = score(qrels, run, "gm_map").summaries["gm_map"]
    precisions = [*(1 / (number + 1) for number in range(7)), 1e-5]
    assert summary.mean == pytest.approx(math.prod(precisions) ** (1 / 8))
    assert summary.min == pytest.approx(1e-5)
    assert None not in (summary.ci_low, summary.mean, summary.ci_high)
    assert 1e-5 < (summary.ci_low or 0) < (summary.mean or 0) < (summary.ci_high or 0) < 1.0


# --- three implementations -------------------------------------------------------------------------------------------


def exported_results(count=60):
    """What a retriever returns: lists of different lengths, repeated chunks, several chunks a document."""
    draw = random.Random(3)
    for number in range(count):
        length = draw.choice([0, 1, 3, 10, 10, 10, 25])
        chunks = [f"doc {chunk // 4}#{chunk}" for chunk in draw.choices(range(60), k=length)]
        relevant = (
            None
            if number % 10 == 9
            else draw.sample([f"doc {c // 4}#{c}" for c in range(60)], draw.choice([1, 1, 2, 4]))
        )
        yield (
            f"item{number}",
            make_result(
                chunks,
                relevant,
                documents=[chunk.partition("#")[0] for chunk in chunks],
                relevant_documents=relevant and sorted({chunk.partition("#")[0] for chunk in relevant}),
            ),
        )


@pytest.mark.parametrize("level", ["chunk", "document"])
def test_the_family_rageval_trec_pytrec_eval_and_ir_measures_agree_on_an_exported_run(tmp_path, level):
    results = dict(exported_results())
    qrels_path, run_path = write_trec(tmp_path, results, level, tag="dense", stem="s")
    qrels, run = read_qrels(qrels_path).values, read_run(run_path).values
    found = score_run(qrels, run, [parse_measure(name) for name in FAMILY.values()], complete=True)
    family = compute_scores(retrieval.metrics(MetricOptions(K)), list(results.values()), Tools())
    with qrels_path.open() as qrels_file, run_path.open() as run_file:
        bare_qrels, bare_run = pytrec_eval.parse_qrel(qrels_file), pytrec_eval.parse_run(run_file)
    trec_names = {name: parse_measure(name).trec_name for name in FAMILY.values()}
    bare = pytrec_eval.RelevanceEvaluator(bare_qrels, set(trec_names.values())).evaluate(bare_run)
    measures = {name: ir_measures.parse_measure(name) for name in FAMILY.values()}
    theirs = {
        (each.query_id, str(each.measure)): each.value
        for each in ir_measures.iter_calc(list(measures.values()), bare_qrels, bare_run)
    }
    prefix = "" if level == "chunk" else "document_"
    compared = 0
    for ours, name in FAMILY.items():
        column = dict(zip(results, family[f"retrieval.{prefix}{ours}"], strict=True))
        for query, outcome in column.items():
            assert (outcome.value is None) == (query not in qrels)
            if query in qrels:
                assert values(found, name)[query] == outcome.value
                assert bare.get(query, {}).get(trec_names[name], 0.0) == pytest.approx(outcome.value, abs=1e-12)
                assert theirs[query, str(measures[name])] == pytest.approx(outcome.value, abs=1e-12)
                compared += 1
        scored = [outcome.value for outcome in column.values() if outcome.value is not None]
        assert found.summaries[name].mean == pytest.approx(sum(scored) / len(scored))
    assert compared == 7 * 54


# Not its RR@k: that one breaks ties otherwise than its RR.
SHARED = [name for name in EVERY if name.partition("@")[0] in ir_measures.measures.registry and "RR@" not in name]


@pytest.mark.parametrize("name", SHARED)
def test_ir_measures_says_the_same_of_a_run_with_ties(name):
    draw = random.Random(5)
    run = {str(q): {f"d{d}": float(draw.randint(0, 4)) for d in draw.sample(range(40), 20)} for q in range(12)}
    qrels = {str(q): {f"d{d}": draw.randint(0, 2) for d in draw.sample(range(40), 15)} | {"d0": 1} for q in range(12)}
    found = score(qrels, run, name)
    measure = ir_measures.parse_measure(name)
    theirs = {each.query_id: each.value for each in ir_measures.iter_calc([measure], qrels, run)}
    ours = found.counts[name] if name in found.counts else values(found, name)
    assert ours == pytest.approx(theirs, abs=1e-9)
