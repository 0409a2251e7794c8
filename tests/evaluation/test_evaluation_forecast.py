"""What a run would ask of models, against counts by hand and against what is really asked."""

import json
from pathlib import Path
from typing import Any

import pytest

from rageval_dagster.benchmark.by_model import DRAFTS
from rageval_dagster.benchmark.mix import QuestionKind, Task
from rageval_dagster.benchmark.related import Related
from rageval_dagster.evaluation.forecast import (
    MULTI_HOP_CALLS,
    SINGLE_CALLS,
    UNANSWERABLE_CALLS,
    forecast,
    generator_calls,
    judge_calls,
)
from rageval_dagster.llm.client import ChatClient
from rageval_dagster.metrics.interface import Tools
from rageval_dagster.metrics.judge_model import judge_scores
from rageval_dagster.metrics.registry import chosen_metrics, options_of
from rageval_dagster.records import Answer, Chunk, Evidence, Hit, Item, Result
from rageval_dagster.settings import Settings, load_settings
from rageval_dagster.storage.caches import LlmCall, save_replies
from rageval_dagster.storage.clients import ensure_client
from rageval_dagster.storage.database import Database
from rageval_dagster.storage.tables import answer_labels
from rageval_dagster.storage.types import utc_now
from tests.benchmark.question_model import generator, kind_of
from tests.llm.scripted_model import scripted_model
from tests.llm.scripted_server import ScriptedServer
from tests.pipeline.small_project import documents
from tests.storage.history_builder import make_dataset, make_items

PRICES = "[prices]\nwriter = {in = 1.0, out = 2.0}\nspeaker = {in = 1.0, out = 2.0}\nassessor = {in = 1.0, out = 2.0}\n"


def configured(tmp_path: Path, toml: str = "", **environment: str) -> Settings:
    """Models in every role, nowhere; no generated dataset, unless something else is said."""
    config = tmp_path / "rageval.toml"
    config.write_text(toml, encoding="utf-8")
    given = {
        "RAGEVAL_GENERATOR_MODEL": "writer",
        "RAGEVAL_ANSWER_MODEL": "speaker",
        "RAGEVAL_JUDGE_MODEL": "assessor",
        "OPENAI_BASE_URL": "http://127.0.0.1:9/v1",
        "EVALUATION_AUTO_GENERATE_DATASETS": "false",
        **environment,
    }
    return load_settings(given, tmp_path / "none.env", config)


def by_role(found: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {each["role"]: each for each in found["models"]}


def record(db: Database, role: str, calls: int, client: str = "acme", **values: Any) -> None:
    nothing = {"prompt_tokens": 0, "completion_tokens": 0, "cost_usd": None, "latency_s": 0.0, "cache_hit": False}
    call = {"model": "whichever", "retries": 0, "error": None, "run_id": None} | nothing | values
    save_replies(db, client, [], [LlmCall(client_id=client, role=role, **call)] * calls)


def test_labelled_answers_that_are_judged_anew_and_repeats_are_counted(sqlite_db: Database, tmp_path: Path) -> None:
    make_dataset(sqlite_db, "acme", make_items(10))
    metrics = '[defaults]\nmetrics = ["claims.faithfulness"]\n'
    said = {"client_id": "acme", "person": "ann", "value": 1.0, "labelled_at": utc_now()}
    labels = [{**said, "result_id": f"{n:064}", "metric_id": "claims.faithfulness"} for n in range(70)]
    sqlite_db.upsert(answer_labels, [*labels, {**said, "result_id": "0" * 64, "metric_id": "judge.overall"}], update=[])
    for repeats in (1, 3):
        settings = configured(tmp_path, metrics, RAGEVAL_JUDGE_REPEATS=str(repeats))
        found = forecast(sqlite_db, settings, "acme", "probe", systems=["dense"])
        assert found["judge calls"] == repeats * 2 * (10 + 60)


def test_calls_are_counted_by_hand(sqlite_db: Database, tmp_path: Path) -> None:
    make_dataset(sqlite_db, "acme", make_items(10))
    settings = configured(tmp_path, '[defaults]\nmetrics = ["retrieval.*", "claims.*", "judge.*", "citation.*"]\n')
    found = forecast(sqlite_db, settings, "acme", "probe", systems=["dense", "bm25"])
    # Each question to each system: an answer and perhaps a better one; 8 for claims.*, 5 for judge.*, 1 for citation.*.
    assert {name: value for name, value in found.items() if name.endswith(" calls")} == {
        "system calls": 0,
        "generator calls": 0,
        "answer calls": 2 * 10 * 2,
        "judge calls": 2 * 10 * (8 + 5 + 1),
    }
    work = by_role(found)
    assert (work["answer"]["calls"], work["answer"]["calls_if_all_goes_well"]) == (40, 20)
    assert (work["judge"]["model"], work["judge"]["calls_if_all_goes_well"]) == ("assessor", 280)
    unverified = settings.model_copy(update={"verification_enabled": False})
    assert forecast(sqlite_db, unverified, "acme", "probe")["answer calls"] == 10
    forbidden = forecast(sqlite_db, configured(tmp_path, '[defaults]\nllm = "forbidden"\n'), "acme", "probe")
    assert (forbidden["models"], forbidden["tokens"], forbidden["cost_usd"]) == ([], 0, 0)


@pytest.mark.parametrize(
    ("metrics", "calls"),
    [
        ('"retrieval.*"', 0),
        ('"claims.faithfulness"', 2),
        ('"claims.faithfulness", "claims.answer_correctness"', 5),
        ('"judge.overall"', 5),
        ('"judge.overall", "judge.faithfulness"', 5),
        ('"citation.accuracy_judged"', 1),
    ],
)
def test_what_metrics_share_is_counted_once(metrics: str, calls: int, tmp_path: Path) -> None:
    assert judge_calls(configured(tmp_path, f"[defaults]\nmetrics = [{metrics}]\n"), 5) == calls


def test_tokens_time_and_cost_are_those_of_the_client_s_own_calls(sqlite_db: Database, tmp_path: Path) -> None:
    make_dataset(sqlite_db, "acme", make_items(10))
    record(sqlite_db, "judge", 4, prompt_tokens=1_000, completion_tokens=100, latency_s=3.0)
    record(sqlite_db, "judge", 6, cache_hit=True)
    record(sqlite_db, "judge", 2, error="HTTP 503")
    record(sqlite_db, "answer", 9, client="other", prompt_tokens=10**6, latency_s=99.0)
    metrics = '[defaults]\nmetrics = ["claims.faithfulness"]\n'
    found = forecast(sqlite_db, configured(tmp_path, metrics + PRICES, RAGEVAL_LLM_CONCURRENCY="4"), "acme", "probe")
    judge, answer = by_role(found)["judge"], by_role(found)["answer"]
    assert (judge["calls"], judge["tokens"], judge["estimated_by"]) == (20, 20 * 1_100, "4 earlier calls")
    assert judge["cost_usd"] == pytest.approx(20 * (1_000 * 1.0 + 100 * 2.0) / 1e6)
    assert judge["seconds"] == 20 * 3.0 / 4
    # Another client's documents say nothing about this one's.
    assert answer["estimated_by"] == "a guess"
    assert answer["seconds"] == 20 * 2.0 / 4
    assert 20 * 5 * 200 < answer["tokens"] < 20 * 5 * 400
    assert found["tokens"] == judge["tokens"] + answer["tokens"]
    assert found["cost_usd"] == pytest.approx(judge["cost_usd"] + answer["cost_usd"])
    assert found["seconds"] == judge["seconds"] + answer["seconds"]
    priced = configured(tmp_path, "[prices]\nspeaker = {in = 1.0, out = 2.0}\n")
    partly = forecast(sqlite_db, priced, "acme", "probe")
    assert by_role(partly)["answer"]["cost_usd"] > 0
    assert by_role(partly)["judge"]["cost_usd"] is partly["cost_usd"] is None, "no price, no cost"


def test_a_guess_knows_the_number_of_contexts_and_their_limit(sqlite_db: Database, tmp_path: Path) -> None:
    make_dataset(sqlite_db, "acme", make_items(3))
    tokens = [
        by_role(forecast(sqlite_db, configured(tmp_path, **limit), "acme", "probe", k=k))["answer"]["tokens"]
        for k, limit in ((1, {}), (5, {}), (1000, {}), (1000, {"RAGEVAL_ANSWER_CONTEXT_TOKENS": "100"}))
    ]
    assert tokens[1] - tokens[0] == 6 * 4 * 220
    assert tokens[2] - tokens[3] == 6 * (8_000 - 100)


def test_a_new_dataset_counts_drafts_and_their_critics(sqlite_db: Database, tmp_path: Path) -> None:
    ensure_client(sqlite_db, "acme")
    settings = configured(
        tmp_path,
        EVALUATION_AUTO_GENERATE_DATASETS="true",
        RAGEVAL_MULTI_HOP_SHARE="0.2",
        RAGEVAL_UNANSWERABLE_SHARE="0.1",
    )
    found = forecast(sqlite_db, settings, "acme", "probe", sample_size=10)
    # 50 chunks, two drafts each, up to 4 in 10 of them over two documents; without trouble 13 drafts.
    assert found["generator calls"] == 50 * 2 * (0.6 * SINGLE_CALLS + 0.4 * MULTI_HOP_CALLS)
    usual = 0.7 * SINGLE_CALLS + 0.2 * MULTI_HOP_CALLS + 0.1 * UNANSWERABLE_CALLS
    assert by_role(found)["generator"]["calls_if_all_goes_well"] == round(13 * usual + 0.5)
    assert found["questions"] == 10
    assert generator_calls(settings, [10], 4).most == round(8 * 3.8 + 0.5), "there are but 4 chunks"


@pytest.mark.parametrize(
    ("kind", "calls"),
    [("temporal", SINGLE_CALLS), ("multi_hop", MULTI_HOP_CALLS), ("unanswerable", UNANSWERABLE_CALLS)],
)
def test_the_calls_of_a_draft_are_those_that_are_sent(kind: QuestionKind, calls: int, sqlite_db: Database) -> None:
    chunks = [Chunk(row["id"], row["text"], row["id"]) for row in documents("lighthouse", count=2)]

    def model(body: dict[str, Any]) -> str:
        if kind_of(body) != "multi_hop":
            return scripted_model(body)
        quotes = [chunk.text.partition(". ")[0] for chunk in chunks]
        question = "Who planned the older of the two lighthouses of Avonlea and Brightwater?"
        return json.dumps({"question": question, "answer": "Aelnova", "quote_1": quotes[0], "quote_2": quotes[1]})

    with ScriptedServer(model) as server:
        # Its last draft.
        generator(server, sqlite_db).generate([Task(chunks[0], kind, DRAFTS - 1)], Related(chunks))
    assert len(server.requests) == calls


def test_the_judge_s_calls_are_those_that_are_sent(sqlite_db: Database, tmp_path: Path) -> None:
    [row] = documents("lighthouse", count=1)
    question = Item("When was it founded?", ("In 1801.",), (Evidence(row["id"], None, "founded in 1801"),))
    said = "The lighthouse of Avonlea was founded in 1801 [1]."
    result = Result(
        item=question,
        relevant_chunks=frozenset({"c1"}),
        relevant_documents=frozenset({row["id"]}),
        hits=(Hit("c1", row["id"], 1, 0.9, row["text"]),),
        k=5,
        answer=Answer(said),
        contexts=(row["text"],),
    )
    with ScriptedServer(scripted_model) as server:
        settings = configured(tmp_path, OPENAI_BASE_URL=server.base_url)
        metrics = [
            metric
            for metric in chosen_metrics(settings, options_of(settings, 5))
            if metric.judged is not None and "embedder" not in metric.needs
        ]
        judge_scores(metrics, [result], Tools(judge=ChatClient(settings, "judge", sqlite_db, "acme")))
    # All but claims.answer_relevancy, which asks once and needs an embedding model.
    assert len(server.requests) == judge_calls(settings, 5) - 1


def test_a_system_of_their_own_may_be_asked_three_times_and_a_recorded_one_is_not(
    sqlite_db: Database, tmp_path: Path
) -> None:
    make_dataset(sqlite_db, "acme", make_items(10))
    systems = '[defaults.systems.theirs]\nkind = "callable"\nfunction = "answers:answer"\n'
    systems += '[defaults.systems.noted]\nkind = "recorded"\nfile = "answers.jsonl"\n'
    settings = configured(tmp_path, '[defaults]\nmetrics = ["claims.faithfulness"]\n' + systems)
    found = forecast(sqlite_db, settings, "acme", "probe", systems=["theirs", "noted", "dense"])
    assert (found["system calls"], found["asked again"]) == (20, 20)
    judge = by_role(found)["judge"]
    assert (judge["calls"], judge["calls_if_all_goes_well"]) == (2 * (30 + 20), 2 * 30)
