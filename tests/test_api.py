"""The REST endpoints: seed 004's requests and answers, and what is refused."""

import asyncio
import itertools
import json
import os
import re
import signal
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import SecretStr
from schemathesis import GenerationMode
from schemathesis.specs.openapi.checks import negative_data_rejection as unknown_parameters_are_refused
from starlette.testclient import TestClient

from rageval_dagster.api import PREFIX, make_app
from rageval_dagster.errors import DatabaseAwayError
from rageval_dagster.settings import load_settings
from rageval_dagster.storage.benchmark import current_datasets
from rageval_dagster.storage.database import Database
from rageval_dagster.storage.evaluations import finish_evaluation
from rageval_dagster.storage.labels import CorrectedFigures, save_corrected
from rageval_dagster.storage.leases import keep_lease, lease_holder
from rageval_dagster.storage.results import save_results, save_retrievals
from rageval_dagster.storage.views import read_view
from tests.fuzzing import fuzz
from tests.pipeline.other_rag import OtherRag, serving
from tests.pipeline.small_project import Project, documents
from tests.pipeline.test_own_system import configure
from tests.storage.history_builder import (
    finish,
    make_dataset,
    make_items,
    open_run,
    result_of,
    retrieval_key,
    retrieval_of,
)

TOKEN = "a-token-of-the-tests"


@pytest.fixture
def client(evaluated: Project) -> TestClient:
    app = make_app(evaluated.settings, evaluated.database(), SecretStr(TOKEN))
    return TestClient(app, headers={"Authorization": f"Bearer {TOKEN}"}, raise_server_exceptions=False)


@pytest.mark.parametrize("header", [None, "Bearer wrong", f"Basic {TOKEN}", "Bearer", f"Bearer {TOKEN}x"])
@pytest.mark.parametrize("path", ["/datasets", "/runs"])
def test_without_the_token_nothing_is_told(client: TestClient, path: str, header: str | None) -> None:
    client.headers.pop("Authorization")
    answer = client.get(PREFIX + path, headers={} if header is None else {"Authorization": header})
    assert answer.status_code == 401
    assert answer.headers["WWW-Authenticate"] == "Bearer"
    assert "token" in answer.json()["detail"]


def test_datasets_and_runs_are_listed_in_the_seed_s_shape(client: TestClient) -> None:
    [dataset] = client.get(f"{PREFIX}/datasets", params={"client_id": "acme"}).json()
    assert set(dataset) == {"dataset_id", "name", "client_id", "qa_count", "created_at"}
    [run] = client.get(f"{PREFIX}/runs", params={"dataset_id": dataset["dataset_id"], "limit": 50}).json()
    assert set(run) == {
        "run_id",
        "dataset_id",
        "precision_at_k",
        "recall_at_k",
        "mrr",
        "faithfulness",
        "k",
        "created_at",
        *("status", "error", "corrected_faithfulness"),  # ours, beside the seed's
    }
    assert run["corrected_faithfulness"] is None
    assert (run["status"], run["error"]) == ("complete", None)
    assert run["faithfulness"] is None  # no model judged
    assert 0 < run["mrr"] <= 1
    assert run["k"] == 5


def test_what_labels_make_of_faithfulness_stands_beside_it(sqlite_db: Database) -> None:
    evaluation = open_run(sqlite_db, make_dataset(sqlite_db, "acme", make_items(3)), "n1")
    finish(sqlite_db, evaluation, {"claims.faithfulness": 0.9})
    figures = CorrectedFigures(0.8123456789, 0.7, 0.9, 60, 0.85)
    save_corrected(sqlite_db, evaluation.id, {"claims.faithfulness": figures})
    app = make_app(load_settings({}), sqlite_db, SecretStr(TOKEN))
    [run] = TestClient(app, headers={"Authorization": f"Bearer {TOKEN}"}).get(f"{PREFIX}/runs").json()
    assert run["faithfulness"] == 0.9
    assert run["corrected_faithfulness"] == {"mean": 0.812346, "low": 0.7, "high": 0.9, "labels": 60}
    [row] = read_view(sqlite_db, "evaluation_history")
    assert (row["faithfulness"], row["corrected_faithfulness"]) == (0.9, 0.8123456789)


def test_a_run_on_which_the_system_failed_says_so_and_why(sqlite_db: Database) -> None:
    items = make_items(3)
    dataset = make_dataset(sqlite_db, "acme", items)
    for trigger, failing in (("n1", 3), ("n2", 1), ("n3", 0)):
        evaluation = open_run(sqlite_db, dataset, trigger)
        records = [retrieval_of(item, error="timeout" if n < failing else None) for n, item in enumerate(items)]
        keys = {item.item_id: retrieval_key(evaluation, f"{trigger} {item.item_id}") for item in items}
        save_retrievals(sqlite_db, evaluation.id, [(each, keys[each.item_id]) for each in records])
        save_results(sqlite_db, evaluation.id, [(result_of(each), keys[each.item_id]) for each in records])
        mean = None if failing == 3 else 5 / 6
        finish_evaluation(
            sqlite_db,
            evaluation.id,
            "complete",
            {"precision_at_5": mean, "recall_at_5": mean, "mrr": mean},
            duration_s=1.0,
            error_count=failing,
        )
    app = make_app(load_settings({}), sqlite_db, SecretStr(TOKEN))
    runs = TestClient(app, headers={"Authorization": f"Bearer {TOKEN}"}).get(f"{PREFIX}/runs").json()
    assert [(run["status"], run["error"], run["mrr"]) for run in runs] == [
        ("complete", None, 0.833333),
        ("complete", "the system failed on 1 of 3 questions: timeout (1)", 0.833333),
        ("failed", "the system failed on 3 of 3 questions: timeout (3)", None),
    ]


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "said"),
    [
        ("GET", "/datasets?client_id=nobody", None, 404, "nobody"),
        ("GET", "/runs?dataset_id=999", None, 404, "999"),
        ("GET", "/runs?limit=0", None, 422, "greater than or equal to 1"),
        ("GET", "/runs?dataset=1", None, 422, "Extra inputs"),
        ("GET", "/datasets?client=acme", None, 422, "Extra inputs"),
        ("POST", "/runs", {"dataset_id": 999, "k": 5}, 404, "999"),
        ("POST", "/runs", {"dataset_id": "one"}, 422, "integer"),
        ("POST", "/runs", {"dataset_id": 1, "k": 0}, 422, "greater than or equal to 1"),
        ("POST", "/runs", {"dataset_id": 1, "K": 5}, 422, "Extra inputs"),
        ("POST", "/generate", {"client_id": "nobody"}, 404, "nobody"),
        ("POST", "/generate", {"client_id": "acme", "chunk_sample_strategy": "best"}, 422, "'random', 'diverse'"),
        ("POST", "/generate", {"client_id": "acme", "sample_size": 2**70}, 422, "less than or equal"),
        ("POST", "/generate", {}, 422, "Field required"),
    ],
)
def test_what_is_refused_says_why(
    client: TestClient, method: str, path: str, body: object, status: int, said: str
) -> None:
    answer = client.request(method, PREFIX + path, json=body)
    assert answer.status_code == status
    assert said in answer.text


@pytest.mark.slow
def test_a_named_dataset_is_evaluated_as_it_is_and_no_other_beside_it(
    loaded: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seed 004's requests, with the client's own k; then a night."""
    project = loaded.given(monkeypatch, EVALUATION_DEFAULT_K="3")
    db = project.database()
    app = make_app(project.settings, db, SecretStr(TOKEN))
    client = TestClient(app, headers={"Authorization": f"Bearer {TOKEN}"})
    asked = {"client_id": "acme", "name": "my-test-dataset", "sample_size": 4}
    made = client.post(f"{PREFIX}/generate", json=asked).json()
    assert (made["name"], made["qa_count"]) == ("my-test-dataset", 4)
    # Its quotes go, but who names a dataset wants that one.
    project.ingest("acme", documents("castle"))
    run = client.post(f"{PREFIX}/runs", json={"dataset_id": made["dataset_id"]}).json()
    assert (run["dataset_id"], run["k"], run["status"]) == (made["dataset_id"], 3, "complete")
    assert [each.id for each in current_datasets(db, "acme")] == [made["dataset_id"]]
    assert project.evaluate("acme", "night 1").message is None
    [renewed] = current_datasets(db, "acme")
    assert renewed.name == "my-test-dataset"
    assert renewed.id != made["dataset_id"]


def test_a_client_that_is_worked_on_is_not_evaluated_beside_it(client: TestClient, evaluated: Project) -> None:
    db = evaluated.database()
    [dataset] = current_datasets(db, "acme")
    with keep_lease(db, "acme", lease_holder("test")):
        answer = client.post(f"{PREFIX}/runs", json={"dataset_id": dataset.id})
    assert answer.status_code == 409
    assert "being worked on" in answer.json()["detail"]


def test_a_database_that_is_away_is_not_taken_for_a_dataset_that_is_gone(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_: object) -> None:
        raise DatabaseAwayError("the history database stopped answering")

    monkeypatch.setattr("rageval_dagster.storage.benchmark.get_dataset", away)
    answers = [client.get(f"{PREFIX}/runs?dataset_id=1"), client.post(f"{PREFIX}/runs", json={"dataset_id": 1})]
    assert [(answer.status_code, answer.json()["detail"]) for answer in answers] == [
        (503, "the history database stopped answering")
    ] * 2


def killed(*_: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_process_that_dies_over_a_request_is_said(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rageval_dagster.api.evaluate_clients", killed)
    answer = client.post(f"{PREFIX}/runs", json={"dataset_id": 1})
    assert (answer.status_code, "died" in answer.json()["detail"]) == (503, True)


@pytest.mark.slow
def test_a_system_that_fails_on_every_question_is_said_with_what_to_do(
    evaluated: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ASSISTANT_TOKEN", "another")
    with serving(OtherRag(documents("lighthouse"))) as assistant:
        configure(evaluated, assistant, max_attempts="1")
        app = make_app(evaluated.settings, evaluated.database(), SecretStr(TOKEN))
        header = {"Authorization": f"Bearer {TOKEN}"}
        answer = TestClient(app, headers=header).post(f"{PREFIX}/runs", json={"dataset_id": 1})
    assert answer.status_code == 503
    assert answer.json()["detail"].startswith(
        "acme / synthetic: assistant failed on 8 of 8 questions: http_status: 401 (8): the system refused its key"
    )


@pytest.mark.slow
def test_nothing_that_the_description_allows_is_an_error_of_the_server(client: TestClient, evaluated: Project) -> None:
    """Requests that schemathesis makes up from the description: right ones, and wrong ones of every kind."""
    schema = schemathesis.openapi.from_asgi("/openapi.json", client.app)
    operations = {f"{method} {path}": schema[path][method] for path in schema for method in schema[path]}
    assert len(operations) == 4
    # Whoever hits upon a dataset that there is finds its client at work: tests/seeds has the evaluations themselves.
    with keep_lease(evaluated.database(), "acme", lease_holder("test")):
        for operation in operations.values():
            for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE):

                @settings(max_examples=100, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
                @given(case=operation.as_strategy(generation_mode=mode))
                def answers_as_described(case: schemathesis.Case) -> None:
                    header = {"Authorization": f"Bearer {TOKEN}"}
                    case.call_and_validate(headers=header, excluded_checks=[unknown_parameters_are_refused])

                answers_as_described()


def test_the_page_that_describes_them_asks_no_other_server(client: TestClient) -> None:
    page = client.get("/docs", headers={"Authorization": ""})
    assert page.status_code == 200
    loaded = re.findall(r"""(?:src|href)=["']([^"']+)""", page.text)
    assert loaded
    assert all(client.get(path).status_code == 200 for path in loaded)
    assert "http" not in "".join(loaded)


# --- hostile requests -------------------------------------------------------------------------------------------------

GIVEN = f"Bearer {TOKEN}"


def asked(
    app: Any, method: str, target: str, body: Iterable[bytes] = (), authorization: str | None = GIVEN, **headers: str
) -> tuple[int, dict[str, str], Any, int]:
    """Status, headers, body of the answer, and how many pieces of the request's body were read for it."""
    path, _, query = target.partition("?")
    given = {"content-type": "application/json", **{name.replace("_", "-"): value for name, value in headers.items()}}
    if authorization is not None:
        given["authorization"] = authorization
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": PREFIX + path,
        "raw_path": b"",
        "query_string": query.encode("utf-8", "surrogatepass"),
        "headers": [(name.encode(), value.encode("utf-8", "surrogatepass")) for name, value in given.items()],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 8000),
    }
    pieces = iter(body)
    read = 0
    sent: list[Any] = []

    async def receive() -> Any:
        nonlocal read
        piece = next(pieces, None)
        read += piece is not None
        return {"type": "http.request", "body": piece or b"", "more_body": piece is not None}

    async def send(message: Any) -> None:
        sent.append(message)

    asyncio.run(app(scope, receive, send))
    told = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
    said = b"".join(each.get("body", b"") for each in sent[1:])
    return sent[0]["status"], told, json.loads(said) if said else None, read


@pytest.fixture
def app(sqlite_db: Database, tmp_path: Path) -> Any:
    # By its clock a minute passes with each look: nobody has to wait for having given wrong tokens.
    minutes = itertools.count(0, 60).__next__
    return make_app(load_settings({"RAGEVAL_HOME": str(tmp_path)}), sqlite_db, SecretStr(TOKEN), minutes)


def endless() -> Iterable[bytes]:
    while True:
        yield b" " * 65_536


@pytest.mark.parametrize("authorization", [None, "", "Bearer", "Bearer ", "Bearer \u00e4", f"Basic {TOKEN}"])
def test_without_the_token_no_body_is_read(app: Any, authorization: str | None) -> None:
    status, headers, said, read = asked(app, "POST", "/runs", endless(), authorization)
    assert (status, headers["www-authenticate"], read) == (401, "Bearer", 0)
    assert "token" in said["detail"]


def test_a_body_over_the_limit_is_refused_by_its_length_or_once_so_much_has_come(sqlite_db: Database) -> None:
    app = make_app(load_settings({"RAGEVAL_SERVE_MAX_BODY_MB": "2"}), sqlite_db, SecretStr(TOKEN))
    for length in ("2000001", "9" * 5000, "-1", "many"):
        status, _, said, read = asked(app, "POST", "/runs", endless(), content_length=length)
        assert (status, said["detail"], read) == (413, "the body is larger than 2 MB (RAGEVAL_SERVE_MAX_BODY_MB)", 0)
    status, _, _, read = asked(app, "POST", "/runs", endless())
    assert (status, read) == (413, 2_000_000 // 65_536 + 1)
    assert asked(app, "POST", "/runs", [b" " * 2_000_000])[0] == 422


@pytest.mark.parametrize(
    ("target", "body", "said"),
    [
        ("/runs", "[" * 100_000, "The body is nested deeper than 100 levels"),
        ("/generate", '{"client_id":' * 500 + "1" + "}" * 500, "The body is nested deeper than 100 levels"),
        ("/generate", r'{"client_id": "a\u0000b"}', "A name has no control characters"),
        ("/generate", r'{"client_id": "a", "name": "b\u001b[2J"}', "A name has no control characters"),
        ("/generate", r'{"client_id": "\ud800"}', "unable to parse raw data as a unicode string"),
        ("/generate", r'{"client_id": "a", "\ud800": 1}', "unable to parse raw data as a unicode string"),
        ("/generate", '{"client_id": "' + "a" * 900_000 + '"}', "at most 200 characters"),
        ("/runs", '{"dataset_id": NaN}', "finite number"),
        ("/runs", '{"dataset_id": 1, ' + ", ".join(f'"{n}": 1' for n in range(20_000)) + "}", "Extra inputs"),
        ("/runs", "", "Field required"),
        ("/datasets?client_id=a%00b", None, "A name has no control characters"),
        ("/datasets?client_id=a%0d%0ab", None, "A name has no control characters"),
        ("/runs?dataset_id=%00", None, "valid integer"),
        ("/runs?limit=1001", None, "less than or equal to 1000"),
    ],
)
def test_hostile_requests_are_refused_in_a_few_words(app: Any, target: str, body: str | None, said: str) -> None:
    pieces = [] if body is None else [body.encode()]
    status, _, answer, _ = asked(app, "GET" if body is None else "POST", target, pieces)
    assert status == 422
    assert 1 <= len(answer["detail"]) <= 10
    assert said in answer["detail"][0]["msg"]
    assert len(json.dumps(answer)) < 2_000


def test_a_number_that_is_too_long_is_no_error_of_the_server(app: Any) -> None:
    assert asked(app, "POST", "/runs", [b'{"dataset_id": ' + b"9" * 5000 + b"}"])[0] == 400


def test_what_nobody_expected_is_told_without_its_words(
    app: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: object) -> None:
        raise KeyError("words of a document")

    monkeypatch.setattr("rageval_dagster.storage.benchmark.list_datasets", broken)
    status, _, said, _ = asked(app, "GET", "/datasets")
    assert status == 500
    assert "the log of rageval serve says where" in said["detail"]
    assert re.fullmatch(rf"GET {PREFIX}/datasets: KeyError at api.py:\d+", caplog.messages[-1])
    assert "words of a document" not in caplog.text


def test_a_list_is_read_in_pages(sqlite_db: Database) -> None:
    dataset = make_dataset(sqlite_db, "acme", make_items(1))
    make_dataset(sqlite_db, "beta", make_items(1))
    for number in range(5):
        finish_evaluation(
            sqlite_db, open_run(sqlite_db, dataset, f"n{number}").id, "complete", {}, duration_s=1.0, error_count=0
        )
    app = make_app(load_settings({}), sqlite_db, SecretStr(TOKEN))
    pages = [asked(app, "GET", f"/runs?limit=2&offset={offset}")[2] for offset in (0, 2, 4, 6)]
    whole = asked(app, "GET", "/runs")[2]
    assert [run["run_id"] for page in pages for run in page] == [run["run_id"] for run in whole]
    assert [len(page) for page in pages] == [2, 2, 1, 0]
    assert [each["client_id"] for each in asked(app, "GET", "/datasets?limit=1&offset=1")[2]] == ["beta"]


ANY_TEXT = st.text(st.characters(exclude_categories=()), max_size=30)
ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | ANY_TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(ANY_TEXT, inner, max_size=3),
    max_leaves=10,
)
FIELDS = st.sampled_from(["client_id", "name", "sample_size", "chunk_sample_strategy", "dataset_id", "k", "limit"])
ANY_BODY = (
    st.dictionaries(FIELDS, ANY_JSON | st.just("acme") | st.integers(1, 9)).map(json.dumps)
    | ANY_JSON.map(json.dumps)
    | st.integers(0, 3_000).map(lambda depth: "[" * depth + "]" * depth)
).map(str.encode) | st.binary()


def test_fuzz_whatever_is_asked_gets_one_of_the_described_answers(app: Any) -> None:
    @given(
        method=st.sampled_from(["GET", "POST", "HEAD", "PUT", "DELETE", "OPTIONS", "\x00"]),
        path=st.sampled_from(["/runs", "/datasets", "/generate", "/runs/", "/runs\x00", "/\ud800", ""]),
        query=st.dictionaries(FIELDS, ANY_TEXT | st.just("1")).map(
            lambda query: "&".join(f"{name}={quote(value, errors='surrogatepass')}" for name, value in query.items())
        )
        | ANY_TEXT,
        body=st.lists(ANY_BODY, max_size=3),
        content_type=st.sampled_from(["application/json", "text/plain", "multipart/form-data", "", "a/b; charset=x"]),
        token=st.booleans(),
    )
    def answers(method: str, path: str, query: str, body: list[bytes], content_type: str, token: bool) -> None:
        authorization = GIVEN if token else "Bearer no"
        status, _, _, read = asked(app, method, f"{path}?{query}", body, authorization, content_type=content_type)
        if not token:
            assert (status, read) == (401, 0)
        assert status in {200, 307, 400, 401, 404, 405, 422}

    fuzz(answers)
