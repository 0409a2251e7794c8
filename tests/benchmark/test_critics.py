"""Critics of drafts: what each of them turns down, with which reason, and what becomes of their failures."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from rageval_dagster.benchmark.critics import was_turned_down
from rageval_dagster.benchmark.mix import QuestionKind, Task
from rageval_dagster.benchmark.related import Related
from rageval_dagster.records import Candidate
from rageval_dagster.storage.database import Database
from tests.benchmark.question_model import FINE, NOT_ANSWERED, QuestionModel, Says, generator, kind_of, sent, user_of
from tests.benchmark.test_by_model import BERGEN, BOTH, CHUNK, GJOA, GOOD, LARVIK, NOWHERE, OLDER
from tests.llm.scripted_model import fences
from tests.llm.scripted_server import Fault, Received, ScriptedServer


def judged(db: Database, kind: QuestionKind = "factual_lookup", **says: Says) -> list[Candidate]:
    model = QuestionModel(single=GOOD, multi_hop=BOTH, unanswerable=NOWHERE, **says)
    with ScriptedServer(model) as server:
        return generator(server, db).generate([Task(CHUNK, kind)], Related([CHUNK, LARVIK, BERGEN]))


@pytest.mark.parametrize(
    ("verdict", "reasons"),
    [
        ({"answerable": False}, ("not_answerable_from_chunk",)),
        ({"self_contained": False}, ("not_self_contained",)),
        ({"correct": False}, ("answer_not_correct",)),
        # Its own answer tells, whatever the critic says of the proposed one.
        ({"answer": "Fridtjof Nansen"}, ("answer_not_correct",)),
        ({"self_contained": "no", "correct": "FALSE"}, ("not_self_contained", "answer_not_correct")),
    ],
)
def test_objections_to_a_pair_keep_their_reasons(
    sqlite_db: Database, verdict: Mapping[str, Any], reasons: tuple[str, ...]
) -> None:
    candidates = judged(sqlite_db, critic={**FINE, **verdict})
    assert [(candidate.status, candidate.reasons) for candidate in candidates] == [("rejected", reasons)] * 2
    assert all(candidate.item and was_turned_down(candidate) for candidate in candidates)


@pytest.mark.parametrize("answer", ["", "It was Colin Archer.", "colin archer, a shipbuilder"])
def test_a_critic_may_answer_in_other_words(sqlite_db: Database, answer: str) -> None:
    [candidate] = judged(sqlite_db, critic={**FINE, "answer": answer})
    assert (candidate.status, candidate.reasons) == ("new", ())
    assert not was_turned_down(candidate)
    assert not was_turned_down(replace(candidate, status="rejected", reasons=("question_no_near_duplicate (of x)",)))


def test_the_critic_sees_all_answers_and_a_wrong_one_is_left_out(sqlite_db: Database) -> None:
    def critic(user: str) -> Mapping[str, Any]:
        return {**FINE, "correct": "Roald Amundsen" not in "".join(fences(user, "answer").values())}

    for others, answers in ((["Archer"], ("Colin Archer", "Archer")), (["Roald Amundsen"], ("Colin Archer",))):
        with ScriptedServer(QuestionModel(single={**GOOD, "also_right": others}, critic=critic)) as server:
            [candidate] = generator(server, sqlite_db).generate([Task(CHUNK)], Related([CHUNK]))
            shown = [fences(user_of(received.body), "answer") for received in sent(server, "critic")]
            assert len(server.requests) == len(shown) + 2, "draft and guess are not asked for again"
        assert (candidate.status, candidate.item and candidate.item.answers) == ("new", answers)
        assert list(shown[0].values()) == ["Colin Archer", *others]


@pytest.mark.parametrize(
    ("guess", "known"),
    [("Colin Archer", True), ("It was the shipbuilder Colin Archer.", True), ("Fridtjof Nansen", False),
     ("unknown", False), ("I don't know whether Colin Archer did.", False)],
)  # fmt: skip
def test_what_is_known_without_the_documents_tests_nothing(sqlite_db: Database, guess: str, known: bool) -> None:
    candidate, *_ = judged(sqlite_db, closed_book=guess)
    assert candidate.reasons == (("known_without_documents",) if known else ())


@pytest.mark.parametrize(
    ("verdict", "enough"),
    [
        ({"answered": True, "answer": "in Vestfold"}, True),
        ({"answered": True, "answer": "Telemark"}, False),  # one alone misleads
        ({"answered": False}, False),
    ],
)
def test_one_of_two_documents_is_not_enough(sqlite_db: Database, verdict: Mapping[str, Any], enough: bool) -> None:
    def answered(user: str) -> dict[str, Any]:
        return {**NOT_ANSWERED, **(verdict if "county of Vestfold" in user else {})}

    candidate, *_ = judged(sqlite_db, "multi_hop", answered=answered)
    assert candidate.reasons == (("answered_by_one_document",) if enough else ())


@pytest.mark.parametrize("named", ["Fram", "Gjøa", ""])
def test_of_a_choice_one_document_is_enough_whatever_it_names(sqlite_db: Database, named: str) -> None:
    """One that names the wrong one of two has guessed, as one that names the right one may have."""

    def answered(user: str) -> dict[str, Any]:
        return {**NOT_ANSWERED, "answered": "Knut Skaale" in user, "answer": named}

    with ScriptedServer(QuestionModel(multi_hop=OLDER, answered=answered)) as server:
        candidate, *_ = generator(server, sqlite_db).generate([Task(CHUNK, "multi_hop")], Related([CHUNK, GJOA]))
    assert candidate.reasons == ("answered_by_one_document",)


def test_a_choice_about_one_document_is_guessed_as_any_other_question(sqlite_db: Database) -> None:
    choice = GOOD | {"question": "Was the ship Fram made by Colin Archer or by Fridtjof Nansen?"}
    with ScriptedServer(QuestionModel(single=choice, closed_book="Colin Archer")) as server:
        candidate, *_ = generator(server, sqlite_db).generate([Task(CHUNK)], Related([CHUNK]))
    assert candidate.reasons == ("known_without_documents",)


@pytest.mark.parametrize(
    ("verdict", "reasons"),
    [
        ({"answered": True, "answer": "none"}, ("answered_by_documents",)),
        ({"self_contained": False}, ("not_self_contained",)),
    ],
)
def test_a_question_that_is_answered_after_all_is_turned_down(
    sqlite_db: Database, verdict: Mapping[str, Any], reasons: tuple[str, ...]
) -> None:
    candidates = judged(sqlite_db, "unanswerable", answered={**NOT_ANSWERED, **verdict})
    assert [(candidate.status, candidate.reasons) for candidate in candidates] == [("rejected", reasons)] * 2


@pytest.mark.parametrize(
    "reply",
    [
        "Answer: Colin Archer\nAnswerable: yes\nSelf-contained: yes\nCorrect: yes",
        '{"answer": "", "answerable": "yes", "self_contained": 1, "Correct": "True"}',
    ],
)
def test_verdicts_in_other_shapes_are_understood_too(sqlite_db: Database, reply: str) -> None:
    assert [candidate.status for candidate in judged(sqlite_db, critic=reply)] == ["new"]


@pytest.mark.parametrize("reply", ["Looks good to me!", '{"answerable": true, "correct": true}', '{"answerable": 7}'])
def test_what_no_critic_judged_is_never_accepted(sqlite_db: Database, reply: str) -> None:
    [candidate] = judged(sqlite_db, critic=reply)
    assert (candidate.status, candidate.item) == ("failed", None)
    assert candidate.reasons[0].startswith("model_failed (verdict_not_understood (no ")


def test_after_a_critic_failed_only_what_is_missing_is_asked(sqlite_db: Database) -> None:
    faults = [Fault("status", 500)]

    def fault_for(received: Received) -> Fault | None:
        return faults[0] if faults and kind_of(received.body) == "closed_book" else None

    with ScriptedServer(QuestionModel(single=GOOD), fault_for=fault_for) as server:
        [failed] = generator(server, sqlite_db).generate([Task(CHUNK)], Related([CHUNK]))
        [guess, *_] = sent(server, "closed_book")
        assert "Larvik" not in guess.text, "the guess is made without the chunk"
        faults.clear()
        calls = len(server.requests)
        [candidate] = generator(server, sqlite_db).generate([Task(CHUNK)], Related([CHUNK]))
        assert len(server.requests) == calls + 1
    assert (failed.status, failed.item) == ("failed", None)
    assert failed.reasons == ("model_failed (HTTP 500 after 2 attempts)",)
    assert (candidate.status, candidate.candidate_id) == ("new", failed.candidate_id)
