"""assess_answer and improve_answer: seed 000's call, what is wrong with an answer in words, and no text in the log."""

import json
import logging

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rageval_dagster.errors import SettingsError
from rageval_dagster.metrics.assessment import ISSUES, assess_answer, improve_answer
from rageval_dagster.settings import Settings, load_settings

SETTINGS = Settings()


def test_seed_000_s_call():
    query, answer = "What is the fee?", "The fee is $5. [1]"
    retrieved_chunks, scores = ["The fee is $5.", "It rains."], [0.9, 0.2]
    assessment = assess_answer(
        question=query, answer=answer, contexts=retrieved_chunks, retrieval_scores=scores, run_id="run-7"
    )
    assert assessment == {
        "run_id": "run-7",
        "passed": True,
        "issues": [],
        "answered": True,
        "has_context": True,
        "has_citation": True,
        "no_fallback_phrase": True,
        "retrieval_score_above_minimum": None,
        "list_formatted": None,
    }
    assert improve_answer(query, answer, retrieved_chunks, assessment) == answer


def test_everything_wrong_is_told():
    strict = Settings(minimum_retrieval_score=0.5)
    assessment = assess_answer("List all fees.", "Unable to generate an answer.", [], [0.1], "r", settings=strict)
    assert not assessment["passed"]
    assert set(assessment["issues"]) == set(ISSUES.values()) - {
        ISSUES["answered"],
        ISSUES["retrieval_score_above_minimum"],
    }, "scores without contexts are those of nothing"
    poor = assess_answer("List all fees.", "", ["A text."], [0.1], "r", settings=strict)
    assert poor["issues"] == [
        ISSUES[name] for name in ("answered", "has_citation", "retrieval_score_above_minimum", "list_formatted")
    ]


def test_the_environment_says_what_is_required(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    arguments = ("What is the fee?", "The fee is $5.", ["The fee is $5."], [0.4], "r")
    assert assess_answer(*arguments)["passed"] is False
    monkeypatch.setenv("RAG__CITATION_REQUIRED", "false")
    assert assess_answer(*arguments)["passed"] is True
    monkeypatch.setenv("RAGEVAL_MINIMUM_RETRIEVAL_SCORE", "0.5")
    assert assess_answer(*arguments)["issues"] == [ISSUES["retrieval_score_above_minimum"]]
    monkeypatch.setenv("RAGEVAL_MINIMUM_RETRIEVAL_SCORE", "high")
    with pytest.raises(SettingsError, match="RAGEVAL_MINIMUM_RETRIEVAL_SCORE"):
        assess_answer(*arguments)


def test_the_client_s_own_decline_phrases_count(tmp_path):
    config = tmp_path / "rageval.toml"
    config.write_text('[defaults]\ndecline_phrases = ["ask the front desk"]\n')
    own = load_settings({}, tmp_path / ".env", config)
    answer = "Please ask the front desk. [1]"
    assert assess_answer("Fee?", answer, ["x"], settings=own)["no_fallback_phrase"] is False
    assert assess_answer("Fee?", answer, ["x"], settings=SETTINGS)["no_fallback_phrase"] is True


def test_chunks_may_say_their_document_and_page():
    chunk = {"text": "The fee is $5.", "doc_id": "fees", "page": 3, "score": 0.8}
    assert assess_answer("Fee?", "It is $5. [fees:3]", [chunk], settings=SETTINGS)["has_citation"] is True
    assert assess_answer("Fee?", "It is $5. [fees]", ["The fee is $5."], settings=SETTINGS)["has_citation"] is False


@pytest.mark.parametrize("context", ["", " ", {"text": ""}])
def test_a_blank_context_supports_no_answer(context):
    assert assess_answer("Fee?", "$5 [1]", [context], settings=SETTINGS)["has_context"] is False


@pytest.mark.parametrize("context", [7, None, {"content": "x"}, {"text": None}])
def test_a_context_without_a_text_is_refused(context):
    with pytest.raises(TypeError, match="context 2"):
        assess_answer("Fee?", "$5", ["x", context], settings=SETTINGS)


def test_the_log_has_values_and_no_text(caplog):
    caplog.set_level(logging.INFO, logger="rageval_dagster")
    assess_answer("secretquestion?", "secretanswer [1]", ["secretcontext"], [0.5], "run\x1b[31m-7", settings=SETTINGS)
    assert "passed=True" in caplog.text
    assert "has_citation=True" in caplog.text
    assert "-7" in caplog.text
    assert "secret" not in caplog.text
    assert "\x1b" not in caplog.text


texts = st.one_of(st.text(max_size=60), st.text(alphabet="aA1 .,[]()-\n`\ud800中。", max_size=60))


@settings(max_examples=150, deadline=None)
@given(
    texts,
    st.one_of(st.none(), texts),
    st.one_of(st.none(), st.lists(texts, max_size=3)),
    st.one_of(st.none(), st.lists(st.floats(), max_size=4)),
    st.one_of(st.none(), texts),
)
def test_any_answer_is_assessed_in_plain_json(question, answer, contexts, scores, run_id):
    assessment = assess_answer(question, answer, contexts, scores, run_id, settings=SETTINGS)
    assert json.loads(json.dumps(assessment)) == assessment
    assert assessment["passed"] == (not assessment["issues"])
    if answer is not None:
        assert improve_answer(question, answer, contexts, assessment) == answer


@pytest.mark.parametrize("contexts", ["The fee is $5.", {"text": "The fee is $5."}])
def test_one_context_in_place_of_a_list_is_refused(contexts):
    with pytest.raises(TypeError, match="contexts is a list of texts or of mappings"):
        assess_answer("What is the fee?", "The fee is $5.", contexts, settings=SETTINGS)
    assessment = assess_answer("What is the fee?", "The fee is $5.", [contexts], settings=SETTINGS)
    with pytest.raises(TypeError, match="contexts is a list of texts or of mappings"):
        improve_answer("What is the fee?", "The fee is $5.", contexts, assessment)
