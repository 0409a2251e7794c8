"""assess_answer and improve_answer: seed 000's call, what is wrong with an answer in words, and no text in the log."""

import json
import logging

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import SecretStr

from rageval_dagster.errors import SettingsError
from rageval_dagster.metrics.assessment import ISSUES, assess_answer, improve_answer
from rageval_dagster.settings import Settings, load_settings
from tests.llm.scripted_server import Fault, ScriptedServer

SETTINGS = Settings()


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
    assert assessment["retrieval_score_above_minimum"] is None, "no minimum is set"
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


# --- improving with a model -------------------------------------------------------------------------------------------

KEY = "sk-canary-1234567890"
ASKED = ("What is the secretfee?", "It is $5.", ["The secretfee is $5.", {"text": "It rains."}])


def modelled(base_url, **overrides):
    return Settings(answer_model="small", openai_base_url=base_url, openai_api_key=SecretStr(KEY), **overrides)


def improve(settings, question=ASKED[0], answer=ASKED[1], contexts=ASKED[2], scores=None):
    assessment = assess_answer(question, answer, contexts, scores, "run-7", settings=settings)
    return improve_answer(question, answer, contexts, assessment, settings=settings)


def test_a_model_is_asked_once_for_what_is_wrong_and_nothing_is_kept(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    with ScriptedServer("It is $5 [1].") as server:
        assert improve(modelled(server.base_url)) == "It is $5 [1]."
        assert improve(modelled(server.base_url), answer="") == "It is $5 [1]."
    received, _ = server.requests
    for part in (*ASKED[:2], "The secretfee is $5.", "It rains.", ISSUES["has_citation"]):
        assert part in received.text
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("answer", "contexts", "scores"),
    [
        ("It is $5 [1].", ASKED[2], None),
        ("The contexts do not answer this question.", ASKED[2], None),
        ("It is $5.", [], None),
        ("It is $5.", [" "], None),
        ("It is $5 [1].", ASKED[2], [0.1, 0.1]),
    ],
    ids=["passes", "declines", "no contexts", "blank contexts", "only what was retrieved is poor"],
)
def test_what_no_model_can_mend_comes_back_unasked(answer, contexts, scores):
    with ScriptedServer("Another one [1].") as server:
        settings = modelled(server.base_url, minimum_retrieval_score=0.5)
        assert improve(settings, answer=answer, contexts=contexts, scores=scores) == answer
    assert server.requests == []


def test_what_is_redacted_is_not_sent(tmp_path):
    config = tmp_path / "rageval.toml"
    config.write_text('[defaults]\nredact = "pii"\nanswer_model = "small"\n')
    question, answer, contexts = "Who is a@b.com?", "It is c@d.com.", ["c@d.com, e@f.com"]
    with ScriptedServer("It is she [1].") as server:
        own = load_settings({"OPENAI_BASE_URL": server.base_url}, tmp_path / ".env", config)
        assert improve(own, question, answer, contexts) == "It is she [1]."
    assert "@" not in server.requests[0].text
    with ScriptedServer("I cannot answer.") as server:
        own = load_settings({"OPENAI_BASE_URL": server.base_url}, tmp_path / ".env", config)
        assert improve(own, question, answer, contexts) == answer, "the first answer stays as it is"


@pytest.mark.parametrize(
    ("fault", "says"),
    [
        (Fault(status=401), "HTTP 401"),
        (Fault(status=503), "HTTP 503"),
        (Fault(status=400, code="content_filter"), "refused the content"),
        (Fault(kind="empty"), "empty"),
        (Fault(kind="web_page"), "not a chat API"),
    ],
)
def test_where_the_model_fails_the_answer_there_is_comes_back_and_the_log_says_why(fault, says, caplog):
    with ScriptedServer(fault_for=lambda _: fault) as server:
        assert improve(modelled(server.base_url)) == ASKED[1]
    assert len(server.requests) == 1
    [record] = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert says in record.getMessage()
    assert "run-7" in record.getMessage()
    assert "secret" not in caplog.text
    assert KEY not in caplog.text


def test_a_model_without_an_endpoint_is_a_mistake_of_the_settings():
    with pytest.raises(SettingsError, match="RAGEVAL_ANSWER_MODEL has no endpoint"):
        improve(Settings(answer_model="small"))
