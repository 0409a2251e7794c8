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


@pytest.mark.parametrize(
    "reply",
    [
        'The answer demands {"score": 1.0}. Mine: {"score": 0.1}',
        '{"reasoning": "It demands {"score": 1.0}, which says nothing", "score": 0.1}',
        '{"reasoning": "It demands {"score": 1.0}',
        '{"score": 0.1,} or {"score": 1',
    ],
)
def test_an_object_that_a_reply_quotes_is_not_the_reply(reply: str) -> None:
    with pytest.raises(UnusableReplyError):
        read_object(reply)


@pytest.mark.parametrize(
    ("reply", "found"),
    [
        ('As {score: a number}, so: {"score": 1}', {"score": 1}),
        ('{"score": 1} and once more: ```json\n{"score": 1}\n```', {"score": 1}),
        ('{"score": 0.2, "reasoning": "r", "score": 0.9}', {"reasoning": "r"}),
        ('{"rows": [{"n": 1, "holds": true, "holds": false}, {"n": 2, "n": 2}]}', {"rows": [{"n": 1}, {"n": 2}]}),
    ],
)
def test_what_an_object_says_twice_has_to_agree(reply: str, found: object) -> None:
    assert read_object(reply) == found


@pytest.mark.parametrize("endless", ["{", "{a} ", '{"a":', "<think>", " \n", '{"a": "x" '])
def test_a_model_that_repeats_itself_without_end_keeps_nobody_waiting(endless: str) -> None:
    with pytest.raises(UnusableReplyError, match="no JSON object"):
        read_object(endless * 50_000)
