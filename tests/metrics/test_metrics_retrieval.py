"""The ranking measures: against their plain definitions and at their edges. test_metrics_trec.py has their peers."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from metric_samples import columns_of, make_result, outcomes_of, plain_measures, value_of

from rageval_dagster.metrics.registry import MetricOptions, Tools, all_metrics


def score(*args, k=5, **kwargs):
    return {
        name: outcome.value
        for name, outcome in outcomes_of("retrieval", make_result(*args, k=k, **kwargs), k=k).items()
    }


def plain(ranked, relevant, k):
    """The definitions by the names of the family, for chunks that are relevant or not."""
    at_k, at_10 = (plain_measures(ranked, dict.fromkeys(relevant, 1), cutoff) for cutoff in (k, 10))
    return {
        f"precision_at_{k}": at_k[f"P@{k}"],
        f"recall_at_{k}": at_k[f"R@{k}"],
        f"hit_rate_at_{k}": at_k[f"Success@{k}"],
        f"ndcg_at_{k}": at_k[f"nDCG@{k}"],
        "ndcg_at_10": at_10["nDCG@10"],
        "mrr": at_k["RR"],
        "map": at_k["AP"],
    }


ids = st.sampled_from([f"c{number}" for number in range(15)])


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(st.lists(ids, max_size=25), st.sets(ids, min_size=1)), max_size=5), st.integers(1, 12))
def test_equal_to_the_plain_definitions_on_both_levels(questions, k):
    results = [
        make_result(
            ranked,
            relevant,
            documents=[f"d{key}" for key in ranked],
            relevant_documents=[f"d{key}" for key in relevant],
            k=k,
        )
        for ranked, relevant in questions
    ]
    found = columns_of("retrieval", results, k=k)
    for number, (ranked, relevant) in enumerate(questions):
        for name, expected in plain(list(dict.fromkeys(ranked)), relevant, k).items():
            assert found[name][number].value == pytest.approx(expected, abs=1e-9)
            assert found[f"document_{name}"][number].value == pytest.approx(expected, abs=1e-9)


def test_precision_divides_by_k_and_has_a_ceiling():
    precision = next(metric for metric in all_metrics(MetricOptions(5)) if metric.name == "precision_at_5")
    assert precision.ceiling is not None
    result = make_result(["a", "b"], ["a"])
    assert precision.compute([result], Tools())[0].value == precision.ceiling(result) == 0.2
    assert precision.ceiling(make_result([], [str(number) for number in range(9)])) == 1.0


@pytest.mark.parametrize("relevant", [None, []])
def test_without_evidence_the_measures_are_undefined(relevant):
    found = outcomes_of("retrieval", make_result(["a"], relevant, relevant_documents=["doc of a"]))
    assert found["recall_at_5"].status == "undefined"
    assert found["document_recall_at_5"].value == 1.0


def test_documents_count_at_their_first_chunk():
    chunks = [f"c{number}" for number in range(7)]
    documents = ["d1", "d1", "d1", "d1", "d1", "d2", "d3"]
    found = score(chunks, ["c6"], documents=documents, relevant_documents=["d3"])
    assert found["hit_rate_at_5"] == 0.0
    assert found["document_hit_rate_at_5"] == 1.0
    assert found["document_mrr"] == pytest.approx(1 / 3)


def test_foreign_hits_counts_each_chunk_once_and_tells_the_kinds_apart():
    result = make_result(["a", "b", "b", "c", "d"], owners=["own", "foreign", "foreign", "unknown", "own"])
    outcome = outcomes_of("retrieval", result)["foreign_hits"]
    assert value_of(outcome) == 0.5
    assert outcome.detail == {"foreign": 1, "unknown": 1}


@pytest.mark.parametrize("owners", [["foreign", "own"], ["own", "foreign"], ["foreign", "unknown"]])
def test_a_leak_is_not_hidden_by_the_same_id_at_another_rank(owners):
    outcome = outcomes_of("retrieval", make_result(["a", "a"], owners=owners))["foreign_hits"]
    assert value_of(outcome) == 1.0
    assert outcome.detail == {"foreign": 1, "unknown": 0}


def test_a_leak_on_an_unanswerable_question_is_seen():
    outcome = outcomes_of("retrieval", make_result(["a"], owners=["foreign"], answerable=False))["foreign_hits"]
    assert value_of(outcome) == 1.0
