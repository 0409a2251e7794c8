"""What other evaluation tools were seen to do, each under the name of the failure that must not happen here."""

import math
from dataclasses import replace

import pytest
from metric_samples import TinyEmbedder, make_result, outcomes_of, unjudged, value_of

from rageval_dagster.benchmark.trec_files import read_qrels, read_run
from rageval_dagster.embedding.models import load_embedder
from rageval_dagster.metrics.registry import MetricOptions, Tools, compute_scores
from rageval_dagster.metrics.trec import parse_measure, score_run
from rageval_dagster.records import Outcome
from rageval_dagster.settings import Settings
from rageval_dagster.statistics import mean_interval, summarise
from rageval_dagster.text import sentences

METRICS = unjudged(MetricOptions(5, TinyEmbedder.version))


def values(result, embedder=None):
    columns = compute_scores(METRICS, [result], Tools(embedder or TinyEmbedder()))
    return {metric_id: column[0].value for metric_id, column in columns.items()}


def trec_scores(tmp_path, qrels, run, *measures):
    (tmp_path / "qrels").write_text(qrels)
    (tmp_path / "run").write_text(run)
    judged, retrieved = read_qrels(tmp_path / "qrels"), read_run(tmp_path / "run")
    scores = score_run(judged.values, retrieved.values, [parse_measure(name) for name in measures])
    return {name: outcome["q"].value for name, outcome in scores.outcomes.items()}


def test_recall_is_2_when_one_document_comes_back_twice(tmp_path):
    result = make_result(["a", "a", "b"], ["a"], documents=["d", "d", "d"], relevant_documents=["d"])
    found = values(result)
    assert found["retrieval.recall_at_5"] == found["retrieval.document_recall_at_5"] == 1.0
    assert found["overlap.context_correctness"] == 1.0
    assert found["retrieval.precision_at_5"] == found["retrieval.document_precision_at_5"] == 0.2
    twice = "q Q0 d 1 0.9 x\nq Q0 d 2 0.8 x\n"
    assert trec_scores(tmp_path, "q 0 d 1\n", twice, "R@5", "P@5") == {"R@5": 1.0, "P@5": 0.2}


def test_rr_and_rr_at_5_disagree_because_ties_are_broken_differently(tmp_path):
    run = "".join(f"q Q0 d{number} {number + 1} 0.5 x\n" for number in range(5))
    for relevant in range(5):
        found = trec_scores(tmp_path, f"q 0 d{relevant} 1\n", run, "RR", "RR@5", "nDCG@5", "Success@1", "recip_rank")
        rank = 5 - relevant  # equal scores by id, descending
        assert found["RR"] == found["RR@5"] == found["recip_rank"] == pytest.approx(1 / rank)
        assert found["nDCG@5"] == pytest.approx(1 / math.log2(rank + 1))
        assert found["Success@1"] == float(rank == 1)


def test_equal_retrieval_scores_are_broken_other_than_by_the_system_s_order():
    result = make_result([f"c{number}" for number in range(5)], ["c3"])
    result = replace(result, hits=tuple(replace(hit, score=0.5) for hit in result.hits))
    found = values(result)
    assert found["retrieval.mrr"] == found["retrieval.map"] == 0.25
    assert found["retrieval.ndcg_at_5"] == pytest.approx(1 / math.log2(5))


SENTENCES = [
    "法国的首都是巴黎。",
    "パリはフランスの首都です。",
    "파리는 프랑스의 수도이다.",
    "Париж — столица Франции.",
    "باريس هي عاصمة فرنسا.",
    "पेरिस फ़्रांस की राजधानी है।",
    "ปารีสเป็นเมืองหลวงของฝรั่งเศส",
    "Το Παρίσι είναι η πρωτεύουσα της Γαλλίας.",
]


@pytest.mark.parametrize("sentence", SENTENCES)
def test_a_metric_is_0_for_identical_chinese_sentences(sentence):
    found = values(make_result(["c"], answer=sentence, references=[sentence], contexts=[sentence], question=sentence))
    compared = {
        metric_id: value
        for metric_id, value in found.items()
        if metric_id.startswith(("lexical.", "embedding.", "overlap.")) and value is not None
    }
    assert compared.pop("embedding.answer_hallucination") == 0.0
    del compared["lexical.source_citation"]
    assert len(compared) >= 11
    assert compared == pytest.approx(dict.fromkeys(compared, 1.0), abs=1e-5)


def test_sentences_are_broken_within_0_305_percent():
    answer = "The rate rises by 0.305%, to $1,604.50. It was 3.14 before, e.g. in 2020!"
    assert sentences(answer) == ["The rate rises by 0.305%, to $1,604.50.", "It was 3.14 before, e.g. in 2020!"]
    embedder = TinyEmbedder()
    values(make_result(["c"], answer=answer, contexts=["The rate."]), embedder)
    assert not {"305%, to $1,604", "The rate rises by 0"} & set(embedder.embedded)
    found = values(make_result(["c"], answer="The rate rises by 0.305% [1].", contexts=["The rate rises by 0.305%"]))
    assert found["citation.coverage"] == found["citation.recall"] == 1.0


def test_the_verbatim_last_sentence_of_a_358_word_chunk_is_called_hallucinated():
    settings = Settings()
    embedder = load_embedder(settings.metric_embedding_model, settings)
    topics = ["bread", "granite", "jazz", "whales", "taxes", "volcanoes", "chess", "bridges", "tulips", "comets"]
    filler = [f"Remark {number} is about {topic} and why {topic} matter." for number in range(3) for topic in topics]
    ends = [f"In {year} the lighthouse keeper of Sand Island wound the clock at six." for year in range(1880, 1890)]
    chunk = " ".join(filler + ends)
    assert len(chunk.split()) > 350
    found = outcomes_of("embedding", make_result(["c"], answer=ends[-1], contexts=[chunk]), embedder)
    assert found["answer_hallucination"].value == 0.0
    end, whole = embedder.encode([ends[-1], chunk])
    assert end @ whole < 0.4, "what the model sees of a whole chunk does not hold its end"


GOOD_NEWS_OF_CONTEXTS = [
    metric
    for metric in METRICS
    if metric.needs & {"contexts"} and metric.higher_is_better and metric.family != "quality"
]


def test_1_0_for_empty_contexts():
    assert {"overlap.faithfulness", "overlap.support", "embedding.context_sufficiency", "citation.accuracy"} <= {
        metric.id for metric in GOOD_NEWS_OF_CONTEXTS
    }
    for contexts in ((), ("",), (" ", "\n")):
        result = make_result(answer="Paris is the capital of France [1].", contexts=contexts, references=["Paris"])
        found = values(result)
        assert {found[metric.id] for metric in GOOD_NEWS_OF_CONTEXTS} <= {0.0, None}
        assert found["embedding.answer_hallucination"] == 1.0


@pytest.mark.parametrize("answer", ["", " \n\t", "\u3000"])
def test_1_0_correctness_for_an_empty_answer(answer):
    item = replace(
        make_result(references=["Paris is the capital of France since 987."], answerable=True).item,
        checks=(
            {"name": "capital", "kind": "fact", "expect": "Paris"},
            {"name": "sum", "kind": "calculation", "expect": 5},
        ),
    )
    result = replace(make_result(["c"], answer=answer, contexts=["Paris is the capital."]), item=item)
    of_answer = [metric for metric in METRICS if metric.needs & {"reference", "checks"}]
    assert len(of_answer) >= 10
    found = values(result)
    assert {found[metric.id] for metric in of_answer} <= {0.0, None}
    assert found["overlap.answer_correctness"] == found["checks.fact_score"] == 0.0
    for metric_id in ("overlap.faithfulness", "overlap.support", "citation.accuracy", "quality.refusal_correct"):
        assert not found[metric_id], metric_id


def test_nan_is_a_score():
    result = make_result(["a", "b"], ["a"], answer="Paris", references=["Paris"], contexts=["Paris"])
    hits = tuple(replace(hit, score=score) for hit, score in zip(result.hits, (math.nan, math.inf), strict=True))
    for each in (replace(result, hits=hits), make_result(answer="", contexts=[""], references=[""], question="")):
        assert all(value is None or math.isfinite(value) for value in values(each).values())
    with pytest.raises(ValueError, match="finite"):
        Outcome.scored(math.nan)
    with pytest.raises(ValueError, match="interval of a mean"):
        mean_interval([math.nan, 1.0])


def test_undefined_items_are_averaged_as_0():
    answered = make_result(["c"], ["c"], answer="Paris [1].", contexts=["Paris"], references=["Paris 987"])
    unknown = make_result(["c"], None, answer="Paris", contexts=["Paris"])
    failed = make_result(error="TimeoutError")
    columns = compute_scores(METRICS, [answered, unknown, unknown, failed], Tools(TinyEmbedder()))
    for metric_id in ("retrieval.recall_at_5", "lexical.number_match", "overlap.answer_correctness"):
        column = columns[metric_id]
        summary = summarise(dict(enumerate(column)))  # pyright: ignore[reportArgumentType]
        assert (summary.n, summary.n_scored, summary.n_undefined, summary.n_error) == (4, 1, 2, 1)
        value = value_of(column[0])
        assert summary.mean == value
        assert (summary.worst_low, summary.worst_high) == (value / 2, (value + 1) / 2)
