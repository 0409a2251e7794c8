"""The REST endpoints: seed 004's requests and answers, and what is refused."""

import os
import re
import signal

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
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
from rageval_dagster.storage.leases import keep_lease, lease_holder
from rageval_dagster.storage.results import save_results, save_retrievals
from tests.pipeline.other_rag import OtherRag, serving
from tests.pipeline.small_project import Project, documents
from tests.pipeline.test_own_system import configure
from tests.storage.history_builder import make_dataset, make_items, open_run, result_of, retrieval_key, retrieval_of

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
        *("status", "error"),  # ours, beside the seed's
    }
    assert (run["status"], run["error"]) == ("complete", None)
    assert run["faithfulness"] is None  # no model judged
    assert 0 < run["mrr"] <= 1
    assert run["k"] == 5


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
    monkeypatch.setattr("rageval_dagster.api.evaluate", killed)
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
