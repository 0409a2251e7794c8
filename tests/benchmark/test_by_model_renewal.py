"""Generated datasets whose questions a model writes: their mix, what critics turn down, and what is asked again."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Any

import pytest

from rageval_dagster.benchmark.due import BenchmarkSpec, renewal_due, specs_of
from rageval_dagster.benchmark.generators import load_generator
from rageval_dagster.benchmark.mix import kind_of
from rageval_dagster.benchmark.renewal import SPARE, StageReport, renew_candidates, renew_dataset, renew_sample
from rageval_dagster.benchmark.review import write_review
from rageval_dagster.corpus.store import ChromaStore, open_store
from rageval_dagster.embedding.models import load_embedder
from rageval_dagster.errors import DatasetError, SettingsError
from rageval_dagster.evaluation.changes import scan_client
from rageval_dagster.evaluation.request import chosen_datasets, make_request
from rageval_dagster.llm.client import UNUSABLE_ATTEMPTS
from rageval_dagster.records import Item
from rageval_dagster.settings import load_settings
from rageval_dagster.settings.styles import STYLES
from rageval_dagster.storage.benchmark import current_datasets, dataset_items, list_candidates
from rageval_dagster.storage.database import Database
from tests.benchmark import question_model
from tests.benchmark.question_model import FINE, NOT_ANSWERED, QuestionModel, passages_of, sent
from tests.llm.scripted_model import fences
from tests.llm.scripted_server import Fault, Received, ScriptedServer
from tests.pipeline.small_project import Project, documents


def sentence_of(passage: str) -> str:
    return max(passage.split("."), key=len).strip()


def code_of(text: str) -> str:
    return f"1{sha256(text.encode()).hexdigest()[:8]}"


def single(user: str) -> dict[str, str]:
    """A question that nobody would ask, but that keeps all rules; in the category that was asked for."""
    quote = sentence_of(passages_of(user)[0])
    asked = re.search(r"\(category (\w+)\)", user)
    return {
        "question": f"Which end has the story number {code_of(quote)}?",
        "answer": " ".join(quote.split()[-2:]),
        "quote": quote,
        "category": asked[1] if asked else "",
    }


def multi_hop(user: str) -> dict[str, str]:
    quotes = [sentence_of(passage) for passage in passages_of(user)]
    return {
        "question": f"Which end have the stories {code_of(quotes[0])} and {code_of(quotes[1])} in common?",
        "answer": " ".join(quotes[0].split()[-2:]),
        "quote_1": quotes[0],
        "quote_2": quotes[1],
    }


def unanswerable(user: str) -> dict[str, str]:
    return {"question": f"Who wrote down story number {code_of(user)}?", "category": "entity_specific"}


GOOD: Mapping[str, Any] = {"single": single, "multi_hop": multi_hop, "unanswerable": unanswerable}


class Chain:
    """The benchmark stages of a project, with a scripted model."""

    def __init__(self, project: Project, server: ScriptedServer, **settings: str) -> None:
        self.settings = question_model.settings(server, **(project.environment | settings))
        self.db: Database = project.database()
        self.store: ChromaStore = open_store(self.settings)
        self.spec = replace(BenchmarkSpec.from_settings(self.settings), always=True)

    def write(self) -> StageReport:
        scan_client(self.db, self.store, "acme", ["dense"])
        renew_sample(self.db, self.store, "acme", self.spec)
        generator = load_generator(self.settings, self.db, "acme", self.spec.seed)
        return renew_candidates(self.db, self.store, "acme", self.spec, generator)

    def freeze(self) -> StageReport:
        embedder = load_embedder(self.settings.embedding_model, self.settings)
        return renew_dataset(self.db, self.store, "acme", self.spec, embedder)

    def items(self) -> list[Item]:
        [dataset] = current_datasets(self.db, "acme")
        return dataset_items(self.db, dataset.id)


Model = tuple[ScriptedServer, dict[str, Any]]


@pytest.fixture
def model() -> Iterator[Model]:
    """A server, and what it says; a test may change that as it goes."""
    says = dict(GOOD)

    def reply(body: dict[str, Any]) -> str:
        return QuestionModel(**says)(body)

    with ScriptedServer(reply) as server:
        yield server, says


def test_a_dataset_has_the_mix_that_was_asked_for_and_costs_nothing_again(loaded: Project, model: Model) -> None:
    server, _ = model
    chain = Chain(loaded, server)
    report = chain.write()
    frozen = chain.freeze()
    items = chain.items()
    kinds = Counter(map(kind_of, items))
    assert kinds["multi_hop"] == 2
    assert kinds["unanswerable"] == 1
    assert sum(kinds.values()) == 8
    assert set(kinds) == {"factual_lookup", "entity_specific", "temporal", "multi_hop", "unanswerable"}
    assert frozen.counts["unanswerable"] == 1
    assert all(result.success for result in frozen.rules if result.blocking)
    assert report.counts["failed"] == report.counts["rejected"] == 0
    # No more chunks were asked about than questions were wanted: 8 and some to spare.
    assert report.counts["written"] == report.counts["usable"] == 11

    calls = len(server.requests)
    again = chain.write()
    chain.freeze()
    assert len(server.requests) == calls
    assert (again.counts["written"], again.counts["reused"]) == (0, 11)
    assert chain.items() == items
    # Other shares take what is there.
    assert renewal_due(chain.db, "acme", replace(chain.spec, always=False)) is None
    other = Chain(loaded, server, RAGEVAL_MULTI_HOP_SHARE="0")
    assert renewal_due(chain.db, "acme", replace(other.spec, always=False)) is not None
    assert other.write().counts["reused"] == 11
    other.freeze()
    assert Counter(map(kind_of, other.items()))["multi_hop"] == 0
    # What there is too little of for them is asked about, and no more.
    more = Chain(loaded, server, RAGEVAL_MULTI_HOP_SHARE="0.6")
    asked = more.write().counts["written"]
    more.freeze()
    assert Counter(map(kind_of, more.items()))["multi_hop"] == 5
    assert 0 < asked < 11
    assert more.write().counts["written"] == 0


@pytest.mark.slow
def test_with_age_the_mix_stays_and_only_new_questions_are_paid_for(loaded: Project, model: Model) -> None:
    """A fifth makes room, but never the first thirty."""
    server, _ = model
    loaded.ingest("acme", [*documents("lighthouse"), *documents("castle"), *documents("museum")])
    shares = {"RAGEVAL_MULTI_HOP_SHARE": "0.25", "RAGEVAL_UNANSWERABLE_SHARE": "0.25"}
    chain = Chain(loaded, server, EVALUATION_DEFAULT_SAMPLE_SIZE="32", **shares)
    chain.write()
    chain.freeze()
    chain.spec = replace(chain.spec, always=False, target=40)
    for week in range(1, 4):
        later = datetime.now(UTC) + timedelta(days=8 * week)
        before = {item.item_id for item in chain.items()}
        renew_sample(chain.db, chain.store, "acme", chain.spec, later)
        generator = load_generator(chain.settings, chain.db, "acme", chain.spec.seed)
        report = renew_candidates(chain.db, chain.store, "acme", chain.spec, generator, now=later)
        embedder = load_embedder(chain.settings.embedding_model, chain.settings)
        renew_dataset(chain.db, chain.store, "acme", chain.spec, embedder, later)
        after = {item.item_id for item in chain.items()}
        assert (len(after), len(before - after)) == (40, min(len(before) // 5, len(before) - 30))
        kinds = Counter(map(kind_of, chain.items()))
        assert (kinds["multi_hop"], kinds["unanswerable"]) == (10, 10)
        # Some to spare, which the next week need not be written again.
        assert report.counts["written"] <= SPARE * len(after - before) + 1


def test_styles_that_were_asked_for_stay_until_others_are(loaded: Project, model: Model) -> None:
    server, _ = model
    own = {"EVALUATION_DEFAULT_SAMPLE_SIZE": "3", "RAGEVAL_QUESTION_STYLES": "chat | a tired engineer"}
    chain = Chain(loaded, server, **own)

    def told() -> set[str]:
        before = len(server.requests)
        chain.write()
        chain.freeze()
        texts = [received.text for received in server.requests[before:]]
        return {style for text in texts for style in fences(text, "style").values()}

    def due() -> list[object]:
        settled = replace(chain.spec, always=False)
        return [renewal_due(chain.db, "acme", each) for each in specs_of(chain.db, "acme", settled)]

    def ask(*styles: str) -> None:
        chain.spec = BenchmarkSpec.from_settings(chain.settings, always=True, styles=styles)

    assert told() <= {STYLES["chat"], "a tired engineer"}
    assert due() == [None]
    ask("search")
    assert told() == {STYLES["search"]}
    ask()
    assert due() == [None], "what the settings say does not come back by itself"
    assert told() == set(), "what was asked for stays, and costs nothing again"
    ask("plain")
    assert told() == set()
    items = chain.items()
    assert items
    ask()
    assert due() == [None]
    # Of two datasets each keeps its own.
    chain.spec = BenchmarkSpec.from_settings(chain.settings, "other", always=True, styles=["expert"])
    assert told() == {STYLES["expert"]}
    chain.spec = BenchmarkSpec.from_settings(chain.settings)
    assert due() == [None, None]


@pytest.mark.parametrize(
    ("styles", "said"),
    [
        (["x" * 201], "200 characters"),
        (["a nurse\nin a hurry"], "one line"),
        ([" "], "--style takes search, chat, expert, plain, or"),
    ],
)
def test_what_is_no_style_is_refused(styles: list[str], said: str) -> None:
    settings = load_settings({"RAGEVAL_GENERATOR_MODEL": "writer"})
    with pytest.raises(SettingsError, match=re.escape(said)):
        BenchmarkSpec.from_settings(settings, styles=styles)


@pytest.mark.parametrize("strategy", ["recent", "random"])
def test_recent_asks_about_what_is_newest_whatever_was_written_before(
    loaded: Project, model: Model, strategy: str
) -> None:
    """Old questions are no reason not to ask about new chunks."""
    server, _ = model
    chain = Chain(loaded, server, RAGEVAL_MULTI_HOP_SHARE="0", RAGEVAL_UNANSWERABLE_SHARE="0")
    chain.spec = replace(chain.spec, strategy=strategy, size=4)
    chain.write()
    chain.freeze()
    loaded.ingest("acme", [*documents("lighthouse"), *documents("castle")])
    chain.store = open_store(chain.settings)
    chain.write()
    chain.freeze()
    topics = {document.partition("-")[0] for item in chain.items() for document in item.document_ids}
    assert topics == ({"castle"} if strategy == "recent" else {"lighthouse", "castle"})


def test_what_critics_turn_down_is_kept_with_its_reason_and_never_drawn(loaded: Project, model: Model) -> None:
    server, says = model
    says["critic"] = lambda user: FINE if "river" in user else {**FINE, "self_contained": False}
    says["answered"] = {**NOT_ANSWERED, "answered": True}
    chain = Chain(loaded, server)
    report = chain.write()
    frozen = chain.freeze()
    candidates = list_candidates(chain.db, "acme")
    rejected = [candidate for candidate in candidates if candidate.status == "rejected"]
    assert {reason for candidate in rejected for reason in candidate.reasons} == {
        "not_self_contained",
        "answered_by_one_document",
        "answered_by_documents",
    }
    assert report.counts["reasons"]["not_self_contained"] == report.counts["rejected"] - sum(
        "not_self_contained" not in candidate.reasons for candidate in rejected
    )
    ids = {candidate.item.item_id for candidate in rejected if candidate.item}
    assert not ids & {item.item_id for item in chain.items()}
    assert frozen.counts["rejected_by_rule"]["not_self_contained"] > 0
    # Another time nothing is asked about them, nor are they judged as new.
    says["critic"] = FINE
    chain.write()
    chain.freeze()
    assert not ids & {item.item_id for item in chain.items()}
    assert {candidate.item.item_id for candidate in list_candidates(chain.db, "acme") if candidate.item} >= ids
    # A person may see them and think otherwise.
    path = loaded.folder / "review.csv"
    write_review(chain.db, "acme", path)
    assert "not_self_contained" in path.read_text(encoding="utf-8")


def test_a_model_that_writes_garbage_loses_nothing_and_is_not_asked_for_ever(loaded: Project) -> None:
    says = ["la la la"]
    with ScriptedServer(lambda body: says[0] or QuestionModel(**GOOD)(body)) as server:
        chain = Chain(loaded, server)
        report = chain.write()
        calls = len(server.requests)
        candidates = list_candidates(chain.db, "acme")
        assert {candidate.status for candidate in candidates} == {"failed"}
        assert report.counts["reasons"] == {"reply_not_understood": len(candidates)}
        assert calls <= UNUSABLE_ATTEMPTS * len(candidates)
        frozen = chain.freeze()
        assert not frozen.rules[-3].success  # benchmark_not_empty
        # There is no empty dataset that would keep imported ones from being evaluated.
        assert not any(rule.blocking for rule in frozen.rules)
        assert current_datasets(chain.db, "acme") == []
        said = f"of {len(candidates)} drafts none became a question (reply_not_understood {len(candidates)})"
        assert said in frozen.reason
        with pytest.raises(DatasetError, match=re.escape(said)):
            chosen_datasets(chain.db, make_request(loaded.settings, "acme", "night 1"))
        chain.spec = replace(chain.spec, always=False)
        assert chain.write().counts["written"] == 0
        assert len(server.requests) == calls
        # Who asks for a benchmark by name asks a model again that may have been mended.
        says[0] = ""
        chain.spec = replace(chain.spec, always=True)
        chain.write()
        chain.freeze()
        assert chain.items()


def test_a_draft_that_was_rejected_stays_when_the_model_fails_at_the_next(loaded: Project) -> None:
    failing = [True]

    def fault_for(received: Received) -> Fault | None:
        second = received.body["temperature"] > 0 and "Avonlea" in received.text
        return Fault("status", 500) if failing and second else None

    model = QuestionModel(**{**GOOD, "unanswerable": single}, critic={**FINE, "correct": False})
    with ScriptedServer(model, fault_for=fault_for) as server:
        chain = Chain(loaded, server, RAGEVAL_MULTI_HOP_SHARE="0", RAGEVAL_UNANSWERABLE_SHARE="0")
        chain.write()
        before = list_candidates(chain.db, "acme")
        unfinished = {each.chunk_key for each in before if each.status == "failed"}
        assert unfinished
        failing.clear()
        drafts = len(sent(server, "single"))
        chain.write()
        assert len(sent(server, "single")) == drafts + len(unfinished)
    after = list_candidates(chain.db, "acme")
    assert {each.status for each in after} == {"rejected"}
    assert [each for each in after if each.attempt == 0] == [each for each in before if each.attempt == 0]
    assert [each.chunk_key for each in after] == [each.chunk_key for each in before]
