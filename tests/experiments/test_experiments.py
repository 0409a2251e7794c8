"""Experiments on real parts, batch by batch without Dagster: what is found, left out, ended, and gone on with."""

import json
import re
from importlib import resources

import pytest

from rageval_dagster.app.experiment import application, forecast
from rageval_dagster.corpus.ingest import ingest
from rageval_dagster.corpus.store import open_store
from rageval_dagster.errors import SettingsError
from rageval_dagster.evaluation.changes import scan_client
from rageval_dagster.experiments.copies import WithoutVectors
from rageval_dagster.experiments.definition import read_definition
from rageval_dagster.experiments.opening import checked
from rageval_dagster.settings import Settings
from rageval_dagster.storage.clients import ensure_client
from rageval_dagster.storage.database import Database
from rageval_dagster.storage.experiments import list_experiments
from tests.experiments.small import CHUNKINGS, CLIENT, OTHERS_WORDS, alike, calls_of, definition, driven, own, questions
from tests.llm.scripted_server import ScriptedServer
from tests.pipeline.small_project import Project, documents, holding
from tests.rag.rag_server import Asked, RagServer, Reply, answering
from tests.rag.tiny_reranker import tiny_reranker
from tests.report.served import serving


def add_client(project: Project, client: str, text: str) -> None:
    settings, db = project.settings, project.database()
    path = project.write(client, [{"id": "board", "title": "Minutes", "text": text}])
    ingest(path, client, open_store(settings), WithoutVectors())
    ensure_client(db, client)
    scan_client(db, open_store(settings), client, ["mine"])


def test_the_best_is_found_by_what_it_says_and_costs(varied: Project) -> None:
    summary = driven(varied, own(varied, "right", "silent"))
    assert (summary["status"], summary["questions"]) == ("finished", 40)
    assert summary["recommended"]["style"] == "right"
    means = {(row["configuration"]["style"], row["mean"]) for row in summary["configurations"]}
    assert means == {("right", 1.0), ("silent", 0.0)}
    assert summary["evaluations"] == len(calls_of(varied)) == sum(row["questions"] for row in summary["configurations"])


def test_what_fails_or_leaks_is_left_out_and_told_and_the_rest_goes_on(varied: Project) -> None:
    add_client(varied, "rival", f"{OTHERS_WORDS} The vote is secret.")
    summary = driven(varied, own(varied, "right", "broken", "leaky"))
    assert summary["recommended"]["style"] == "right"
    left = {row["configuration"]["style"]: row["left_because"] for row in summary["configurations"]}
    assert left["right"] is None
    assert left["broken"] == "failed on every question: raised: ValueError"
    assert left["leaky"].startswith("returned passages of another client on ")
    asked = {row["configuration"]["style"]: row["questions"] for row in summary["configurations"]}
    assert asked["broken"] < asked["right"]
    assert asked["leaky"] < asked["right"]
    home = varied.settings.home
    assert holding("Orinoco", *home.glob("rageval.sqlite3*"), home / "experiments") == []


def test_a_requirement_that_is_surely_missed_takes_a_configuration_out(varied: Project) -> None:
    file = own(varied, "silent", more='require = { "overlap.answer_correctness" = 0.99 }')
    summary = driven(varied, file)
    assert {row["left_because"] for row in summary["configurations"]} == {
        "overlap.answer_correctness is surely below 0.99"
    }
    assert summary["status"] == "stopped"


def test_questions_whose_evidence_left_the_documents_are_left_out_and_counted(varied: Project) -> None:
    settings, db = varied.settings, varied.database()
    store = open_store(settings)
    gone = [each.id for page in store.scan(CLIENT) for each in page.chunks if "caldera" in each.document_id]
    assert gone
    store.delete(CLIENT, gone)
    scan_client(db, store, CLIENT, ["mine"])
    file = own(varied, "right", "silent")
    file.write_text(file.read_text().replace("overlap.answer_correctness", "retrieval.mrr"), encoding="utf-8")
    asked = checked(db, settings, read_definition(file), file.name)
    assert (len(asked.items), asked.left_out) == (35, 5)


def test_a_prompt_of_one_s_own_system_is_no_folder(varied: Project) -> None:
    file = own(varied, "right")
    file.write_text(file.read_text(encoding="utf-8").replace("words = [1, 4]", 'prompt = ["short", "long"]'))
    assert read_definition(file)["parameters"]["prompt"] == ["short", "long"]


def test_one_and_true_are_two_values(varied: Project) -> None:
    file = own(varied, "right")
    text = file.read_text(encoding="utf-8").replace("words = [1, 4]", "words = [1, true, 4]")
    summary = driven(varied, definition(varied.folder, text))
    [words] = [each["values"] for each in summary["effects"] if each["parameter"] == "words"]
    assert sorted((str(each["value"]), each["configurations"]) for each in words) == [("1", 1), ("4", 1), ("True", 1)]


def test_where_every_configuration_fails_nothing_is_recommended_and_all_is_asked_again(varied: Project) -> None:
    file = own(varied, "broken")
    for _ in range(2):
        before = len(calls_of(varied))
        summary = driven(varied, file)
        assert summary["ended_why"] == "no configuration is left: failed on every question: raised: ValueError"
        assert summary["recommended"] is None
        assert len(calls_of(varied)) > before
    assert len(list_experiments(varied.database())) == 1


def test_stopped_anywhere_it_goes_on_to_what_an_undisturbed_one_comes_to(varied: Project) -> None:
    file = own(varied, "right", "silent", "broken")
    for most in (1, 2, 3):
        assert driven(varied, file, most)["status"] == "running"
    disturbed = driven(varied, file)
    asked = calls_of(varied)
    file.write_text(file.read_text(encoding="utf-8").replace("[experiment]", "[experiment]\ntolerance = 0.010001"))
    undisturbed = driven(varied, file)
    assert undisturbed["experiment"] == 2
    # What failed is asked again each time, and nothing else.
    again = [call for call in calls_of(varied)[len(asked) :] if "broken" not in call]
    assert sorted(again) == sorted(call for call in asked if "broken" not in call)
    assert alike(disturbed) == alike(undisturbed)


def test_a_budget_that_ends_in_the_middle_is_told_and_a_larger_one_goes_on(
    answered: Project, server: ScriptedServer
) -> None:
    with (answered.folder / "rageval.toml").open("a") as toml:
        toml.write("[prices]\nscripted = { in = 100000, out = 0 }\n")
    limited = CHUNKINGS.replace("[experiment]", "[experiment]\nbudget = { cost_usd = 100 }")
    summary = driven(answered, definition(answered.folder, limited))
    assert summary["status"] == "stopped"
    assert summary["ended_why"].startswith("its budget of 100 USD is spent (")
    assert 100 <= summary["spent_usd"] < 110
    asked = len(server.requests)
    more = driven(answered, definition(answered.folder, limited.replace("= 100", "= 1000000")))
    assert (more["experiment"], more["status"]) == (1, "finished")
    bodies = [json.dumps(request.body) for request in server.requests]
    assert len(set(bodies)) == len(bodies) > asked, "nothing is asked twice"
    assert all(row["cost_usd"] > 0 for row in more["configurations"])
    assert more["spent_usd"] > summary["spent_usd"]


def test_a_model_without_a_price_is_refused_where_cost_is_limited(answered: Project) -> None:
    limited = CHUNKINGS.replace("[experiment]", "[experiment]\nbudget = { cost_usd = 100 }")
    with pytest.raises(Exception, match="the price of 'scripted' is not known"):
        driven(answered, definition(answered.folder, limited))


def test_documents_that_change_on_the_way_end_it(varied: Project) -> None:
    file = own(varied, "right", "silent")
    assert driven(varied, file, 2)["status"] == "running"
    project, settings = varied, varied.settings
    changed = [{**row, "text": row["text"].replace("crowns", "pounds")} for row in documents("lighthouse")]
    experiment = list_experiments(varied.database())[0]
    ingest(project.write(CLIENT, changed), CLIENT, open_store(settings), WithoutVectors(), chunk_size=300, overlap=40)
    ended = ended_of(varied.database(), settings, experiment.number)
    assert ended == "the client's documents changed since it began; run it again to start from scratch"
    assert driven(varied, file)["experiment"] == 2


def test_the_store_s_own_chunks_are_searched_with_other_vectors(answered: Project, server: ScriptedServer) -> None:
    text = """
[experiment]
client = "acme"
objective = "overlap.answer_correctness"
[parameters]
embedding_model = ["openai:one", "openai:two"]
retriever = ["dense", "hybrid", "bm25"]
dense_share = [0.7]
"""
    summary = driven(answered, definition(answered.folder, text))
    found = [
        (row["configuration"]["retriever"], row["configuration"].get("embedding_model"))
        for row in summary["configurations"]
    ]
    assert sorted(found, key=str) == [
        ("bm25", None),
        *((name, model) for name in ("dense", "hybrid") for model in ("openai:one", "openai:two")),
    ]
    assert all(row["failed"] == 0 and row["left_because"] != "failed" for row in summary["configurations"])
    embedded = [text for request in server.requests if "embeddings" in request.path for text in request.body["input"]]
    assert len(embedded) == 2 * len(set(embedded)), "each text once a model"
    effects = {each["parameter"]: each["values"] for each in summary["effects"]}
    assert {row["value"] for row in effects["retriever"]} == {"dense", "hybrid", "bm25"}
    assert all(0 <= row["low"] <= row["mean"] <= row["high"] <= 1 for rows in effects.values() for row in rows)


def test_models_and_prompts_are_tried_and_their_cost_is_told(answered: Project, server: ScriptedServer) -> None:
    with (answered.folder / "rageval.toml").open("a") as toml:
        toml.write("[prices]\nsmall = { in = 1, out = 1 }\nlarge = { in = 50, out = 50 }\n")
    built_in = resources.files("rageval_dagster").joinpath("prompts", "answer.txt").read_text("utf-8")
    for name in ("plain", "brief"):
        (answered.folder / name).mkdir()
        own_words = built_in.replace("[system]\n", f"[system]\nBe {name}. ", 1)
        (answered.folder / name / "answer.txt").write_text(own_words, encoding="utf-8")
    text = """
[experiment]
client = "acme"
objective = "overlap.answer_correctness"
budget = { cost_usd = 100 }
[parameters]
retriever = ["bm25"]
answer_model = ["large", "small"]
prompt = ["plain", "brief"]
"""
    summary = driven(answered, definition(answered.folder, text))
    asked = {(request.body["model"], "Be brief." in request.text) for request in server.requests}
    assert asked == {(model, brief) for model in ("large", "small") for brief in (False, True)}
    costs = {row["configuration"]["answer_model"]: row["cost_usd"] for row in summary["configurations"]}
    assert costs["large"] > 40 * costs["small"] > 0
    assert summary["recommended"]["answer_model"] == "small", "as good, and cheaper"


def test_a_system_behind_http_with_three_parameters(varied: Project) -> None:
    known = {str(row["question"]): str(row["answers"][0]) for row in questions()}

    def reply(asked: Asked) -> Reply:
        if asked.path == "/v2/ask" and asked.body["rerank"] and asked.body["t"] == 0.2:
            return answering(known[asked.question])
        return Reply(status=400) if asked.path == "/v3/ask" else answering("I cannot tell")

    with RagServer(reply) as server, (varied.folder / "rageval.toml").open("a") as toml:
        toml.write(
            f"""
[clients.acme.systems.web]
kind = "http"
url = "{server.url}/{{param.index}}/ask"
request = {{ question = "{{question}}", t = "{{param.temperature}}", rerank = "{{param.rerank}}" }}
params = {{ index = "v1", temperature = 0.2, rerank = true }}
version = "1"
"""
        )
        toml.flush()
        text = """
[experiment]
client = "acme"
system = "web"
objective = "overlap.answer_correctness"
[parameters]
index = ["v1", "v2", "v3"]
temperature = [0.2, 0.9]
rerank = [true, false]
"""
        summary = driven(varied, definition(varied.folder, text))
    assert summary["recommended"] == {"index": "v2", "temperature": 0.2, "rerank": True}
    left = {row["left_because"] for row in summary["configurations"] if row["configuration"]["index"] == "v3"}
    assert left == {"failed on every question: http_status: 400"}


def test_the_report_tells_what_is_recommended_what_each_parameter_does_and_what_left(varied: Project) -> None:
    summary = driven(varied, own(varied, "right <b>&", "silent", "broken"))
    path = varied.settings.home / "experiments" / CLIENT / "1" / "report.html"
    assert path.stat().st_mode & 0o777 == 0o600
    page = path.read_text(encoding="utf-8")
    for words in (
        "rageval experiment apply 1",
        "failed on every question: raised: ValueError",
        "[clients.acme.systems",
    ):
        assert words in page
    assert "right &lt;b&gt;&amp;" in page
    assert "<b>&" not in page
    assert page.count("<svg") >= len(summary["effects"]) == 2
    assert not re.search(r"(src|href)=.https?:", page)


def ended_of(db: Database, settings: Settings, number: int) -> str | None:
    from rageval_dagster.experiments.standing import advance
    from rageval_dagster.storage.experiments import get_experiment

    return advance(db, settings, get_experiment(db, number)).experiment.ended_why


def test_chunkings_find_the_same_evidence_in_their_own_chunks(answered: Project) -> None:
    text = CHUNKINGS.replace("number_of_chunks = [1, 3]", "").replace("chunk_size = [120, 400]", "chunk_size = [60, 0]")
    summary = driven(
        answered, definition(answered.folder, text.replace("chunk_overlap = [0, 200]", "chunk_overlap = [0]"))
    )
    hits = {row["configuration"]["chunk_size"]: row["scores"] for row in summary["configurations"]}
    assert hits[0]["retrieval.hit_rate_at_k"]["mean"] == 1.0, "a whole document always holds it"
    assert 0.3 < hits[60]["retrieval.mrr"]["mean"] < hits[0]["retrieval.mrr"]["mean"]


def test_a_reranker_is_tried_beside_none_and_applied_by_its_whole_path(answered: Project) -> None:
    texts = [row["text"] for row in documents("lighthouse")]
    model = tiny_reranker(answered.folder / "tiny", texts)
    text = f"""
[experiment]
client = "{CLIENT}"
objective = "retrieval.mrr"
[parameters]
reranker = ["", "tiny"]
retriever = ["bm25"]
"""
    file = definition(answered.folder, text)
    summary = driven(answered, file)
    found = {row["configuration"]["reranker"]: row["mean"] for row in summary["configurations"]}
    assert found.keys() == {"", str(model)}
    assert found[""] > found[str(model)], "random weights know less than BM25"
    [number] = [row["number"] for row in summary["configurations"] if row["configuration"]["reranker"]]
    tables, command = application(answered.settings, answered.database(), 1, number)
    assert (tables["clients", CLIENT], command) == ({"reranker": str(model), "system": "bm25"}, None)
    file.write_text(text.replace('"tiny"', '"./nowhere"'), encoding="utf-8")
    with pytest.raises(
        SettingsError, match=r"experiment.toml \[parameters\] reranker: reranker ./nowhere: no model in"
    ):
        checked(answered.database(), answered.settings, read_definition(file), file.name)


def test_embedding_time_is_measured_on_a_few_texts_and_not_where_an_endpoint_would_be_asked(
    answered: Project, server: ScriptedServer
) -> None:
    settings, db = answered.settings, answered.database()
    for models, is_measured in (("", True), ('embedding_model = ["openai:one", "openai:two"]', False)):
        text = CHUNKINGS.replace('"bm25"', '"dense"') + models
        asked = checked(db, settings, read_definition(definition(answered.folder, text)), "experiment.toml")
        found = forecast(db, asked)
        assert found["texts_to_embed"] > 0
        least, most = found["embedding_seconds_at_least"], found["embedding_seconds_at_most"]
        assert 0 <= least <= most if is_measured else (least, most) == (None, None)
    assert server.requests == []
    assert list_experiments(db) == []


def test_the_report_is_served_from_the_beginning_to_those_who_are_logged_in(varied: Project) -> None:
    file, db = own(varied, "right", "silent"), varied.database()
    with serving(db, varied.settings.home) as served:
        client = served.logged_in()
        assert "There are no experiments yet" in client.get("/reports/experiments.html").text
        driven(varied, file, most=2)
        for path in ("/reports/experiments.html", "/reports/experiment-1.html"):
            answer = served.browser().get(path)
            assert (answer.status_code, answer.headers["location"]) == (303, f"../login?next={path.rpartition('/')[2]}")
        assert '<a href="experiment-1.html">1: acme, running, ' in client.get("/reports/experiments.html").text
        assert "Still running" in client.get("/reports/experiment-1.html").text
        driven(varied, file)
        page = client.get("/reports/experiment-1.html").text
        file = varied.settings.home / "experiments" / CLIENT / "1" / "report.html"
        written = file.read_text(encoding="utf-8")
        assert re.sub(r'<a href="(experiments.html|../label|../logout)">[^<]*</a>', "", page) == written
        file.write_bytes(b"half of a letter: \xc3")
        assert client.get("/reports/experiment-1.html").text == page
        for unknown in (
            "experiment-2.html",
            "experiment-999999999.html",
            "experiment-1.html.html",
            "experiment-01x.html",
        ):
            assert client.get(f"/reports/{unknown}").status_code == 404
