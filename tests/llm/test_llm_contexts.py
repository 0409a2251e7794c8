"""How many tokens texts have, about, and which contexts a prompt has room for."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rageval_dagster.llm.contexts import cut_to, estimated_tokens, numbered_contexts
from rageval_dagster.llm.prompts import fenced

PROSE = "The lighthouse was built in 1850 by Dr. Miller. It is forty metres high. Visitors enter from the north side."


@pytest.mark.parametrize(
    ("text", "tokens"),
    [("", 0), ("a", 1), ("word" * 10, 10), ("灯塔建于海湾北岸", 8), ("маяк", 3), ("3.14;2.71;", 5), ("\ud800", 1)],
)
def test_tokens_are_counted_by_script(text: str, tokens: int) -> None:
    assert estimated_tokens(text) == tokens


def test_contexts_that_fit_are_all_shown_whole() -> None:
    shown = numbered_contexts([PROSE, "", "Short."], 1_000)
    assert shown == "\n\n".join(fenced("context", text, n) for n, text in enumerate([PROSE, "", "Short."], start=1))


def test_the_context_that_does_not_fit_ends_with_a_sentence_and_later_ones_are_left_out() -> None:
    two_sentences = PROSE.removesuffix(" Visitors enter from the north side.")
    first, second = fenced("context", PROSE, 1), fenced("context", two_sentences, 2)
    room = estimated_tokens(f"{first}\n\n") + estimated_tokens(f"{second}\n\n") + 1
    shown = numbered_contexts([PROSE, PROSE * 4, "Short."], room)
    assert shown == f"{first}\n\n{second}"


@pytest.mark.parametrize(
    ("text", "tokens", "beginning"),
    [
        (PROSE, 16, "The lighthouse was built in 1850 by Dr. Miller."),
        (PROSE, 9, "The lighthouse was built in 1850"),
        ("灯塔建于海湾北岸。它高四十米。游客可以进入。", 18, "灯塔建于海湾北岸。它高四十米。"),
        ("灯塔建于海湾北岸它高四十米游客可以进入", 5, "灯塔建于海"),
        ("x" * 100, 5, "x" * 20),
        (PROSE, 0, ""),
        (PROSE, -7, ""),
    ],
)
def test_a_text_is_cut_at_a_sentence_else_at_a_word(text: str, tokens: int, beginning: str) -> None:
    assert cut_to(text, tokens) == beginning


texts = st.text(alphabet=st.one_of(st.characters(), st.sampled_from("aA. \n。中<>/")), max_size=200)


@settings(max_examples=150)
@given(texts, st.integers(-3, 80))
def test_what_is_cut_is_a_beginning_that_fits(text: str, tokens: int) -> None:
    cut = cut_to(text, tokens)
    assert text.startswith(cut)
    assert estimated_tokens(cut) <= max(tokens, 0)


@settings(max_examples=100)
@given(st.lists(texts.filter(lambda text: "<" not in text), max_size=5), st.integers(100, 200))
def test_contexts_keep_their_numbers_and_the_budget(contexts: list[str], tokens: int) -> None:
    shown = numbered_contexts(contexts, tokens)
    assert estimated_tokens(shown) <= tokens
    numbers = [int(number) for number in re.findall(r'^<context-\d+ number="(\d+)">$', shown, re.MULTILINE)]
    assert numbers == list(range(1, len(numbers) + 1))
    assert len(numbers) <= len(contexts)
