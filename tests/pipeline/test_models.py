"""The whole chain with a language model in every role, over HTTP: what it costs, and what is left when it fails."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import dagster as dg
import pytest
import sqlalchemy as sa

from rageval_dagster.evaluation.summary import is_by_model, reports_of
from rageval_dagster.gate.decision import judged_before
from rageval_dagster.labels.queue import draw
from rageval_dagster.llm.endpoints import Role
from rageval_dagster.storage.benchmark import current_datasets
from rageval_dagster.storage.caches import model_usage
from rageval_dagster.storage.evaluations import evaluations_of_trigger
from rageval_dagster.storage.labels import Label, save_labels
from rageval_dagster.storage.tables import item_results, llm_calls
from tests.cli.running import Run, refused
from tests.llm.scripted_model import scripted_model
from tests.llm.scripted_server import Fault, ScriptedServer
from tests.lost_heartbeats import let_leases_expire
from tests.pipeline.small_project import Project, documents

KEY = "sk-canary-0123456789abcdef"
ROLES: tuple[Role, ...] = ("generator", "answer", "judge")
JUDGED = {
    *(f"claims.{name}" for name in ("faithfulness", "answer_relevancy", "context_precision", "context_recall")),
    *(f"judge.{name}" for name in ("faithfulness", "answer_relevance", "completeness", "correctness", "overall")),
    "claims.answer_correctness",
    "judge.citation_quality",
}


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer(scripted_model) as started:
        yield started


@pytest.fixture
def modelled(loaded: Project, server: ScriptedServer, monkeypatch: pytest.MonkeyPatch) -> Project:
    """A project whose questions, answers and verdicts are a model's."""
    return with_models(loaded, server.base_url, monkeypatch)


def with_models(project: Project, base_url: str, monkeypatch: pytest.MonkeyPatch, **more: str) -> Project:
    variables = {
        **{f"RAGEVAL_{role.upper()}_MODEL": f"scripted-{role}" for role in ROLES},
        "OPENAI_BASE_URL": base_url,
        "OPENAI_API_KEY": KEY,
        "EVALUATION_DEFAULT_SAMPLE_SIZE": "5",
        **more,
    }
    return project.given(monkeypatch, **variables)


def metadata_of(run_id: str) -> dict[str, dict[str, Any]]:
    """What each asset's materialization said, by the asset's name."""
    with dg.DagsterInstance.get() as instance:
        records = instance.get_records_for_run(run_id, of_type=dg.DagsterEventType.ASSET_MATERIALIZATION).records
    found = {}
    for record in records:
        materialization = record.event_log_entry.asset_materialization
        assert materialization is not None
        found[materialization.asset_key.to_user_string()] = {
            name: value.value for name, value in materialization.metadata.items()
        }
    return found


@pytest.mark.core
def test_every_role_s_model_is_asked_once_and_the_next_night_not_at_all(
    modelled: Project, server: ScriptedServer, run: Run
) -> None:
    launched = modelled.evaluate("acme", "night 1")
    assert launched.failure is None
    db = modelled.database()
    [report] = reports_of(db, "acme", "night 1")
    judged = report.by_model()
    assert set(judged) >= JUDGED
    assert {name: s.n_scored for name, s in judged.items() if name in JUDGED and not s.n_scored} == {}
    assert all(summary.n_error == 0 for summary in judged.values())
    with db.connect() as connection:
        roles = set(connection.execute(sa.select(llm_calls.c.role)).scalars())
        answers = list(connection.execute(sa.select(item_results.c.answer)).scalars())
    assert roles == set(ROLES)
    assert all(re.search(r"\[\d\]", answer) for answer in answers)
    said = metadata_of(launched.run_id)
    assert said["synthetic_qa"]["model_calls"] == model_usage(db, "acme", role="generator").sent > 0
    [judging] = [value for name, value in said["metric_scores"].items() if name.endswith("/model_calls")]
    assert judging == model_usage(db, "acme", role="judge").sent > 0
    assert said["metric_scores"]["synthetic/dense/coverage"] == 1.0
    assert said["evaluation_runs"]["synthetic/claims.faithfulness"] == judged["claims.faithfulness"].mean
    asked = len(server.requests)
    assert asked == model_usage(db, "acme").sent
    shown = run("runs", "show", report.evaluation.id).out
    assert "judge.faithfulness 0.750  by the script\n" in shown
    assert "\n    - by the script\n" in shown
    second = modelled.evaluate("acme", "night 2")
    assert second.failure is None
    differences = {
        name: value for name, value in metadata_of(second.run_id)["evaluation_runs"].items() if "baseline" in name
    }
    assert differences["synthetic/retrieval.hit_rate_at_5/against_baseline"] == 0.0
    assert set(differences.values()) == {0.0}
    assert len(server.requests) == asked
    [again] = reports_of(db, "acme", "night 2")
    assert {name: s.mean for name, s in again.summaries.items()} == {
        name: s.mean for name, s in report.summaries.items()
    }


@pytest.mark.slow
def test_a_judge_that_turns_harsh_behind_its_name_is_found_where_people_labelled_answers(
    loaded: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    harsh = False

    def reply(body: dict[str, Any]) -> str:
        """On the second night every answer is another one, and the judge finds no claim to be supported."""
        said = scripted_model(body)
        if harsh and not said.startswith("{"):
            return f"{said} Indeed."
        return said.replace('"supported": true', '"supported": false') if harsh else said

    with ScriptedServer(reply) as server:
        more = {"EVALUATION_DEFAULT_SAMPLE_SIZE": "15"}
        project = with_models(loaded, server.base_url, monkeypatch, **more)
        assert project.evaluate("acme", "night 1").failure is None
        db = project.database()
        [before] = evaluations_of_trigger(db, "acme", "night 1")
        answers = draw(db, before, "claims.faithfulness")
        assert len(answers.waiting) >= 12
        save_labels(db, "acme", [Label(each, "claims.faithfulness", "ann", 1.0) for each in answers.waiting])
        harsh = True
        project = with_models(loaded, server.base_url, monkeypatch, **more, RAGEVAL_ANSWER_MODEL="other")
        second = project.evaluate("acme", "night 2")
        assert second.failure is None
    [after] = evaluations_of_trigger(db, "acme", "night 2")
    judged = judged_before(db, after)
    [row] = [row for row in judged.gated if row.metric_id == "claims.faithfulness"]
    assert row.decision == "unclear"
    told = [each.detail for each in judged.judgement.changes if each.what == "judge_drift"]
    assert len(told) == 1
    assert told[0].startswith(f"the judge changed: it scores the same {len(answers.waiting)} answers ")
    shown = metadata_of(second.run_id)["evaluation_runs"]
    assert shown["synthetic/calibration"].startswith("Not calibrated: ")  # of these answers nobody said anything
    assert project.evaluate("acme", "night 3").failure is None
    [quiet] = evaluations_of_trigger(db, "acme", "night 3")
    assert judged_before(db, quiet).judgement.verdict == judged.judgement.verdict


@pytest.mark.slow
def test_before_a_fall_is_believed_each_old_answer_is_judged_once_however_often_the_run_is_taken_up(
    loaded: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    harsh = False
    asked: list[str] = []
    """The old answers that the check of the judge sent, a request each time."""
    spoilt: set[str] = set()

    def reply(body: dict[str, Any]) -> str:
        """As in the test above; besides, of three old answers the judge says nothing that can be used."""
        said = scripted_model(body)
        if not harsh:
            return said
        if not said.startswith("{"):
            return f"{said} Indeed."
        if said.startswith('{"claims"') and "Indeed" not in body["messages"][-1]["content"]:
            asked.append(body["messages"][-1]["content"])
            if len(spoilt) < 3:
                spoilt.add(asked[-1])
            if asked[-1] in spoilt:
                return "la la la"
        return said.replace('"supported": true', '"supported": false')

    more = {"EVALUATION_DEFAULT_SAMPLE_SIZE": "15", "RAGEVAL_METRICS": "retrieval,claims.faithfulness"}
    with ScriptedServer(reply) as server:
        project = with_models(loaded, server.base_url, monkeypatch, **more)
        assert project.evaluate("acme", "night 1").failure is None
        db = project.database()
        harsh = True
        project = with_models(loaded, server.base_url, monkeypatch, **more, RAGEVAL_ANSWER_MODEL="other")
        assert project.evaluate("acme", "night 2").failure is None
        [after] = evaluations_of_trigger(db, "acme", "night 2")
        judged = judged_before(db, after)
        found = [each.detail for each in judged.judgement.changes if each.what == "judge_drift"]
        answers, sent = set(asked), len(server.requests)
        same = f"the same {len(answers) - len(spoilt)} answers"
        assert found == [f"the judge changed: it scores {same} 1.00 lower (claims.faithfulness)"]
        usage = model_usage(db, "acme")
        assert sent == usage.sent + usage.retries
        # Of those that failed, too, nothing is asked again.
        for _ in range(2):
            assert project.evaluate("acme", "night 2").failure is None
            assert judged_before(db, after).judgement == judged.judgement
            assert len(server.requests) == sent


@pytest.mark.slow
def test_a_model_that_writes_no_question_writes_no_dataset(
    loaded: Project, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = ("datasets", "generate", "--client", "acme")

    def nothing_is_written() -> None:
        with ScriptedServer("la la la") as server, monkeypatch.context() as patch:
            with_models(loaded, server.base_url, patch)
            ended = run(*command, "--sample-size", "1")  # a dataset keeps its size without
        refused(ended, "acme: no dataset was written: of 10 drafts none became a question (reply_not_understood 10)")

    nothing_is_written()
    assert current_datasets(loaded.database(), "acme") == []
    assert run(*command).code == 0
    before = current_datasets(loaded.database(), "acme")
    nothing_is_written()
    assert current_datasets(loaded.database(), "acme") == before


@pytest.mark.slow
def test_a_changed_document_costs_what_it_touches(
    modelled: Project, server: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert modelled.evaluate("acme", "night 1").failure is None
    asked = len(server.requests)
    rows = documents("lighthouse")
    rows[0]["text"] = rows[0]["text"].replace("north", "south")
    modelled.ingest("acme", rows)
    assert modelled.evaluate("acme", "night 2").failure is None
    # One of eight documents: at most the questions among whose contexts it stands.
    assert len(server.requests) - asked < asked * 0.7


@pytest.mark.slow
def test_half_the_budget_stops_there_says_so_and_the_next_run_goes_on(
    loaded: Project, server: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    needed = with_models(loaded, server.base_url, monkeypatch)
    assert needed.evaluate("acme", "all").failure is None
    db = needed.database()
    tokens, calls = model_usage(db, "acme").tokens, len(server.requests)
    needed.ingest("other", documents("lighthouse"))
    limited = with_models(loaded, server.base_url, monkeypatch, RAGEVAL_LLM_MAX_TOKENS=str(tokens * 6 // 10))
    first = limited.evaluate("other", "half")
    assert first.failure is not None
    assert "RAGEVAL_LLM_MAX_TOKENS" in first.failure
    assert " are done" in first.failure
    assert "\n" not in first.failure
    spent = model_usage(db, "other").tokens
    assert tokens * 6 // 10 <= spent <= tokens * 6 // 10 + 16 * 18
    assert limited.evaluate("other", "half").failure is None
    assert len(server.requests) - calls <= calls + 16
    [one], [other] = reports_of(db, "acme", "all"), reports_of(db, "other", "half")
    assert {name: s.mean for name, s in one.by_model().items()} == {
        name: s.mean for name, s in other.by_model().items()
    }


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fault", "says"),
    [
        (Fault(status=401, message=f"Incorrect API key provided: {KEY}"), "RAGEVAL_GENERATOR_API_KEY"),
        (Fault(status=404, code="model_not_found"), "RAGEVAL_GENERATOR_MODEL"),
        (Fault(status=400, code="context_length_exceeded"), "too long"),
        (Fault("web_page"), "/v1"),
    ],
)
def test_what_cannot_pass_is_one_clear_line_and_no_storm(
    loaded: Project, run: Run, fault: Fault, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ScriptedServer(fault_for=lambda _: fault) as server:
        with_models(loaded, server.base_url, monkeypatch)
        ended = run("evaluate", "--client", "acme")
    refused(ended, says)
    assert ended.err.count(says) == 1
    assert KEY not in ended.err
    assert len(server.requests) <= 4


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_killed_process_pays_only_for_what_is_missing(loaded: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """`kill -9` in the middle of generation, answering and judging."""
    with ScriptedServer(scripted_model) as server:
        undisturbed = with_models(loaded, server.base_url, monkeypatch)
        undisturbed.ingest("other", documents("lighthouse"))
        assert undisturbed.evaluate("other", "all").failure is None
        calls = len(server.requests)
    process: list[subprocess.Popen[bytes]] = []
    kills = iter((calls // 8, calls // 3, calls * 2 // 3))
    next_kill = [next(kills)]
    asked = [0]

    def reply(body: dict[str, Any]) -> str:
        asked[0] += 1
        if asked[0] >= next_kill[0]:
            next_kill[0] = next(kills, 10**9)
            process[0].send_signal(signal.SIGKILL)
        return scripted_model(body)

    with ScriptedServer(reply) as server:
        variables = dict(os.environ) | {"OPENAI_BASE_URL": server.base_url}
        command = [sys.executable, "-m", "rageval_dagster", "evaluate", "--client", "acme"]
        codes = []
        for _ in range(4):
            process[:] = [subprocess.Popen(command, env=variables, cwd=loaded.folder, stderr=subprocess.DEVNULL)]
            codes.append(process[0].wait())
            let_leases_expire(undisturbed.database())
    assert codes == [-signal.SIGKILL] * 3 + [0]
    # What was on its way when the process died is asked again: at most one round for each kill.
    assert calls <= len(server.requests) <= calls + 3 * 16
    db = undisturbed.database()
    [one], [other] = reports_of(db, "acme"), reports_of(db, "other", "all")
    assert {name: s.mean for name, s in one.by_model().items()} == {
        name: s.mean for name, s in other.by_model().items()
    }


def test_only_by_model_metrics_are_said_to_be() -> None:
    assert is_by_model("citation.accuracy_judged")
    assert not is_by_model("citation.accuracy")
