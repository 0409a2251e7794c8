"""Systems that are Python functions, from a folder of the user's."""

import threading
from pathlib import Path
from typing import Any

import pytest

from rageval_dagster.errors import SettingsError
from rageval_dagster.rag.system import RagSystem
from rageval_dagster.records import Answer, Hit, Item
from tests.rag.definitions import ask, load, said

MODULE = """
import asyncio
import contextvars

calls = []
loops = []

def everything(question, k, history, principal, client):
    calls.append((question, k, history, principal, client))
    return {"answer": question.upper(), "contexts": [{"id": "c1", "text": "t"}], "v": "of " + question}

def some(question, *, client="nobody", temperature=0.5):
    return f"{client} asks {question}"

def warmed(question, temperature):
    return f"{question} at {temperature}"

def anything(**given):
    return " ".join(sorted(given))

async def later(question):
    loops.append(asyncio.get_running_loop())
    await asyncio.sleep(0)
    if question == "exit":
        raise SystemExit(3)
    return question

class Pipeline:
    version = "pipeline-2"
    def __call__(self, question):
        return "by an object"
    def run(self, question):
        return "by a method"

pipeline = Pipeline()

def fails(question):
    if question == "bad":
        raise ValueError("canary: " + question)
    if question == "exit":
        raise SystemExit(3)
    if question == "list":
        return ["a"]
    if question == "tuple":
        return {"answer": "t", "contexts": ("a", "b")}
    return question

def versioned(question):
    return question
versioned.__rageval_version__ = "2024-05"
versioned.version = "other"

def meets(question):
    barrier.wait(timeout=60)
    return question

def no_question(k):
    return ""

def wants_more(question, api_key):
    return ""

def positional(question, /):
    return ""

not_a_function = 3
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("theirs")
    (folder / "callable_rag_module.py").write_text(MODULE)
    (folder / "callable_rag_broken.py").write_text("raise RuntimeError('canary')")
    (folder / "callable_rag_importing.py").write_text("import no_such_library_anywhere")
    return folder


def system(folder: Path, function: str, **fields: Any) -> RagSystem:
    return load(folder, kind="callable", function=f"callable_rag_module:{function}", **fields)


def test_a_function_gets_all_of_a_question_and_gives_a_dict(folder: Path) -> None:
    ours = system(folder, "everything", response={"version": "v"})
    item = Item("q", history=({"role": "user", "content": "Hi"},), principal={"team": 7})
    found = ours.retrieve([item, Item("r")], 12)
    import callable_rag_module  # pyright: ignore[reportMissingImports]

    assert callable_rag_module.calls == [
        ("q", 12, [{"role": "user", "content": "Hi"}], {"team": 7}, "acme"),
        ("r", 12, [], None, "acme"),
    ]
    assert found[0].hits == (Hit("c1", "", 1, 0.0, "t"),)
    assert found[0].answer is not None
    assert found[0].answer.answer == Answer("Q")
    assert found[0].answer.latency_s is not None
    assert found[1].version == "of r"


@pytest.mark.parametrize(
    ("function", "answer"),
    [
        ("some", "acme asks q"),
        ("anything", "client history k principal question"),
        ("later", "q"),
        ("pipeline", "by an object"),
        ("pipeline.run", "by a method"),
    ],
)
def test_it_gets_what_it_takes_and_may_give_the_answer_alone(folder: Path, function: str, answer: str) -> None:
    (found,) = system(folder, function).retrieve([Item("q")], 10)
    assert (said(found), found.hits) == (answer, None)


def test_a_function_gets_the_systems_own_parameters_which_are_part_of_its_version(folder: Path) -> None:
    ours, other = (system(folder, "warmed", params={"temperature": value}) for value in (0.5, 0.9))
    assert ask(ours, "q") == ["q at 0.5"]
    assert ours.version != other.version
    assert ask(system(folder, "anything", params={"rerank": True}), "q") == [
        "client history k principal question rerank"
    ]


def test_async_functions_keep_their_event_loop_between_questions(folder: Path) -> None:
    for ours in (system(folder, "later", concurrency=3), system(folder, "later")):
        assert ask(ours, "a", "exit", "b", "c") == ["a", "raised: SystemExit", "b", "c"]
    import callable_rag_module  # pyright: ignore[reportMissingImports]

    assert len(set(map(id, callable_rag_module.loops))) == 1


def test_one_that_raises_is_an_error_without_its_words(folder: Path) -> None:
    assert ask(system(folder, "fails"), "a", "bad", "exit", "list", "tuple", "b") == [
        "a",
        "raised: ValueError",
        "raised: SystemExit",
        "wrong_shape: contexts is missing",
        "t",
        "b",
    ]


def test_as_many_at_once_as_set(folder: Path) -> None:
    ours = system(folder, "meets", concurrency=3)
    import callable_rag_module  # pyright: ignore[reportMissingImports]

    callable_rag_module.barrier = threading.Barrier(3)
    assert ask(ours, *"abcdef") == list("abcdef")


@pytest.mark.parametrize(
    ("function", "message"),
    [
        ("callable_rag_module:nothing", "callable_rag_module has no function 'nothing'"),
        ("callable_rag_module:not_a_function", "has no function 'not_a_function'"),
        ("callable_rag_absent:answer", "there is no module 'callable_rag_absent'"),
        ("callable_rag_importing:answer", "there is no module 'no_such_library_anywhere'"),
        ("callable_rag_broken:answer", "fails with RuntimeError"),
        ("callable_rag_module:no_question", "takes no 'question'"),
        ("callable_rag_module:positional", "takes no 'question'"),
        ("callable_rag_module:wants_more", "needs 'api_key', but is given question, k"),
    ],
)
def test_a_function_that_cannot_be_asked_is_one_clear_error(folder: Path, function: str, message: str) -> None:
    with pytest.raises(SettingsError) as raised:
        load(folder, kind="callable", function=function)
    assert message in str(raised.value)
    assert "canary" not in str(raised.value)


@pytest.mark.parametrize(
    ("params", "message"),
    [({"rerank": True}, "takes no 'rerank', which params has"), ({"k": 3}, "params cannot have 'k'")],
)
def test_parameters_that_it_does_not_take_are_one_clear_error(
    folder: Path, params: dict[str, Any], message: str
) -> None:
    with pytest.raises(SettingsError) as raised:
        system(folder, "some", params=params)
    assert message in str(raised.value)


@pytest.mark.parametrize(
    ("function", "fields", "version"),
    [
        ("versioned", {}, "2024-05"),
        ("versioned", {"version": "mine"}, "mine"),
        ("pipeline", {}, "pipeline-2"),
        ("everything", {"response": {"version": "v"}}, "of q"),
        ("everything", {}, None),
    ],
)
def test_versions(folder: Path, function: str, fields: dict[str, Any], version: str | None) -> None:
    assert system(folder, function, **fields).declared_version(Item("q"), 10) == version
