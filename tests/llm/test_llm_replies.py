"""Reading what models reply, whatever stands around it."""

import pytest

from rageval_dagster.llm.messages import UnusableReplyError
from rageval_dagster.llm.replies import read_object, without_thoughts


@pytest.mark.parametrize(
    ("reply", "answer"),
    [
        ("<think>Is it?</think>It is [1].", "It is [1]."),
        ("\n<Thinking>\nIs it?\n</Thinking>\n\nIt is.", "It is."),
        # The beginning counts to the prompt of some models.
        ("Is it [2]?\nYes.\n</think>\n\nIt is [1].", "It is [1]."),
        # It thought until it was stopped.
        ("<think>Is it? Or is it not", ""),
        # What an answer says of the marks is none.
        ("The mark </think> ends it [1].", "The mark </think> ends it [1]."),
        ('{"claims": ["<think>x</think> is a mark"]}', '{"claims": ["<think>x</think> is a mark"]}'),
    ],
)
def test_thoughts_are_no_part_of_the_reply(reply: str, answer: str) -> None:
    assert without_thoughts(reply) == answer


def test_an_object_among_the_thoughts_is_not_the_reply() -> None:
    assert read_object('Perhaps {"score": 0}?\n</think>\n{"score": 1}') == {"score": 1}
    with pytest.raises(UnusableReplyError):
        read_object('<think>Perhaps {"score": 0}?')


@pytest.mark.parametrize("endless", ["{", '{"a":', "<think>", " \n", '{"a": "x" '])
def test_a_model_that_repeats_itself_without_end_keeps_nobody_waiting(endless: str) -> None:
    with pytest.raises(UnusableReplyError, match="no JSON object"):
        read_object(endless * 50_000)
