"""`score`: recorded answers from memory."""

from typing import Any

import pytest

from rageval_dagster import score
from rageval_dagster.errors import DatasetError, SettingsError
from rageval_dagster.metrics.interface import MetricOptions, Tools
from rageval_dagster.recorded import scoring
from rageval_dagster.recorded.formats import OutputOptions, outputs_of
from rageval_dagster.recorded.scoring import score_outputs
from rageval_dagster.records import Evidence, Item
from tests.metrics.metric_samples import TinyEmbedder, unjudged

ROW = {"question": "Where is it?", "reference_answer": "In Rome.", "answer": "In Rome.", "contexts": ["It is in Rome."]}


def test_every_metric_is_reported_also_where_nothing_can_be_measured() -> None:
    result = score([{"question": "Where?", "answer": "There.", "contexts": None}], ["lexical.*", "retrieval.*"])
    for metric_id, summary in result["scores"].items():
        assert summary["n"] == summary["n_scored"] + summary["n_undefined"] == 1, metric_id
        if not summary["n_scored"]:
            assert summary["mean"] is None
            assert result["question_scores"][metric_id] == {"q0": None}
            assert result["outcomes"][metric_id]["q0"]["reason"]


def test_whose_chunks_came_back_is_not_made_up() -> None:
    row = {**ROW, "contexts": [{"text": "It is in Rome.", "document_id": "d", "chunk_id": "c"}]}
    result = score([row], ["retrieval.foreign_hits"])
    assert result["scores"]["retrieval.foreign_hits"]["n_undefined"] == 1


def test_documents_are_judged_only_where_the_contexts_name_theirs() -> None:
    evidence = [{"document_id": "d"}]
    named = {"question": "Where?", "answer": "a", "evidence": evidence, "contexts": [{"text": "x", "document_id": "d"}]}
    unnamed = {**named, "contexts": ["x"]}
    found = score([named, unnamed], ["retrieval.document_mrr", "retrieval.document_precision_at_5"])
    assert found["question_scores"]["retrieval.document_mrr"] == {"q0": 1.0, "q1": None}
    assert found["scores"]["retrieval.document_precision_at_5"]["ci_high"] == 0.2, "no more is possible"


def test_a_passage_of_another_page_is_no_hit_where_the_file_tells_pages() -> None:
    def row(*pages: int | None) -> dict[str, Any]:
        contexts = [{"text": "x", "document_id": "d", "page": page} for page in pages]
        evidence = [{"document_id": "d", "page": page} for page in (3, 5)]
        return {"question": "Where?", "answer": "a", "evidence": evidence, "contexts": contexts}

    names = ["retrieval.mrr", "retrieval.recall_at_5", "retrieval.document_mrr"]

    def values(*rows: dict[str, Any]) -> list[list[Any]]:
        return [list(score(rows, names)["question_scores"][name].values()) for name in names]

    # What does not tell the pages of the wanted document is judged by the document, and what is not found at all is 0.
    assert values(row(7, 3, 3), row(7), row(7, None), row()) == [[0.5, 0, None, 0], [0.5, 0, None, 0], [1, 1, 1, 0]]
    assert values(row(None, None), row()) == [[None, None], [None, None], [1, 0]]


def test_a_model_is_loaded_only_where_a_metric_needs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAGEVAL_METRIC_EMBEDDING_MODEL", "/nowhere/at/all")
    assert score([ROW], ["lexical.token_f1"])["scores"]["lexical.token_f1"]["mean"] == 1.0
    with pytest.raises(Exception, match="/nowhere/at/all"):
        score([ROW], ["embedding.answer_correctness"])


@pytest.mark.parametrize(
    ("items", "words"),
    [
        ([], "no items"),
        ([{"question": "a"}], "row 1"),
        ([ROW, {"question": "a", "answer": 3}], "row 2, field answer"),
        ([object()], "row 1"),
        ([{**ROW, "label": 1}], "recorded, judged"),
    ],
)
def test_what_cannot_be_scored_is_one_clear_error(items: list[Any], words: str) -> None:
    with pytest.raises(DatasetError, match=words):
        score(items, ["lexical.*"])


def test_an_unknown_metric_names_the_nearest() -> None:
    with pytest.raises(SettingsError, match=r"did you mean lexical\.token_f1"):
        score([ROW], ["lexical.token_f2"])
    with pytest.raises(SettingsError, match="token_f1"):
        score([ROW], ["token_f1"])
    with pytest.raises(DatasetError, match="at least 1"):
        score([ROW], k=0)


def test_batches_change_nothing_and_each_text_is_embedded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [
        {"question": f"Where is place {i % 7}?", "answer": f"In town {i}.", "contexts": [f"Town {i % 5} is there."]}
        for i in range(40)
    ]
    outputs = outputs_of(rows, OutputOptions()).rows
    whole, parts = TinyEmbedder(), TinyEmbedder()
    metrics = unjudged(MetricOptions(k=5, embedder_version="tiny@1"))
    expected = score_outputs(outputs, metrics, Tools(whole))
    monkeypatch.setattr(scoring, "BATCH", 3)
    seen: list[tuple[int, int]] = []
    assert score_outputs(outputs, metrics, Tools(parts), lambda done, total: seen.append((done, total))) == expected
    assert seen[-1] == (40, 40)
    assert len(parts.embedded) == len(set(parts.embedded)) == len(set(whole.embedded))


def test_answers_to_one_question_are_no_independent_ones() -> None:
    """Five systems that agree on each of eight questions tell less than forty questions do."""
    answers = ["In Rome.", "In Oslo."] * 4

    def width(*questions: str) -> float:
        rows = [
            {**ROW, "question": question, "answer": said} for question, said in zip(questions, answers * 5, strict=True)
        ]
        found = score(rows, ["lexical.exact_match"])["scores"]["lexical.exact_match"]
        return found["ci_high"] - found["ci_low"]

    same, apart = ([f"Where is {number % of}?" for number in range(40)] for of in (8, 40))
    assert width(*same) > 1.3 * width(*apart)


def test_answers_from_the_same_pages_of_a_document_are_no_independent_ones() -> None:
    """As in an evaluation: of a document with pages, twenty are together."""

    def width(parts: int) -> float:
        rows = []
        for number in range(40):
            page, right = 1 + 20 * (number % parts) + number % 20, number % 2 == 0
            item = Item(f"Where is {number}?", ("Rome",), (Evidence("manual.pdf", page, "It is in Rome."),))
            rows.append({**item.to_dict(), "answer": "Rome" if right else "Oslo"})
        found = score(rows, ["lexical.exact_match"])["scores"]["lexical.exact_match"]
        return found["ci_high"] - found["ci_low"]

    assert width(parts=8) > 1.3 * width(parts=40)


def test_texts_are_redacted_as_an_evaluation_would(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rageval.toml").write_text('[defaults]\nredact = "pii"\n', encoding="utf-8")
    row = {**ROW, "answer": "Write to ann@example.org", "reference_answer": "Write to bob@example.com"}
    assert score([row], ["lexical.exact_match"])["question_scores"]["lexical.exact_match"] == {"q0": 1.0}


def test_an_item_s_own_fields_are_a_shape_too() -> None:
    item = Item("Where is it?", ("In Rome.", "Rome"))
    result = score([{**item.to_dict(), "answer": "Rome"}], ["lexical.exact_match"])
    assert result["question_scores"]["lexical.exact_match"] == {item.item_id: 1.0}
