"""Sentences and words in any script."""

import time
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rageval_dagster.text import normalised, segments, sentences, separate_characters, word_spans


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The rate is 0.305% in Dr. Li's town. It fell!", ["The rate is 0.305% in Dr. Li's town.", "It fell!"]),
        ("你好。世界很大！是吗？", ["你好。", "世界很大！", "是吗？"]),
        ("桥长212米。1929年冬天，河水结冰。", ["桥长212米。", "1929年冬天，河水结冰。"]),
        ("यह है। वह है।", ["यह है।", "वह है।"]),
        ("It fell. [1]\n\n[2] [doc:3]\n\n...", ["It fell. [1]"]),
        ("A\x85. Then\u00a0it fell.", ["A .", "Then it fell."]),
        ("?!", ["?!"]),
        ("👍", ["👍"]),
        (" \n", []),
    ],
)
def test_sentences(text, expected):
    assert sentences(text) == expected


@settings(max_examples=300, deadline=None)
@given(
    st.text(alphabet=st.one_of(st.characters(), st.sampled_from(".!?。 A\u00a0\x85\u2028\n[1]'\"「」")), max_size=60)
)
def test_sentences_lose_no_word(text):
    found = sentences(text)
    assert all(sentence.strip() for sentence in found)
    assert bool(found) == bool(text.strip())
    assert len("".join(segments(text))) == len(text)


def test_a_long_text_is_cut_as_its_parts_are():
    parts = [f"Sentence {number} has 0.{number}% in it." for number in range(2_000)]
    assert sentences(" ".join(parts)) == parts


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Rule C-1 costs $604.00", ["Rule", "C", "1", "costs", "604", "00"]),
        ("हिन्दी में", ["हिन्दी", "में"]),
        ("巴黎2024年", ["巴", "黎", "2024", "年"]),
        ("กินข้าว", ["กิ", "น", "ข้", "า", "ว"]),
        ("cafe\u0301 👍🏽", ["cafe\u0301"]),
    ],
)
def test_words(text, expected):
    assert [match.group() for match in word_spans(text)] == expected


def test_separated_characters_count_as_words():
    assert separate_characters("巴黎 is 大").split() == ["巴", "黎", "is", "大"]


@given(st.text(alphabet="aé\u0301\u0323e -中\uac00", max_size=60), st.sampled_from(["NFC", "NFKC", "NFKD"]))
def test_a_text_is_normalised_as_unicode_says(text, form):
    assert normalised(text, form) == unicodedata.normalize(form, text)


def test_piled_up_marks_are_normalised_in_linear_time():
    started = time.process_time()
    assert normalised("a" + "\u0301\u0323" * 250_000).startswith("\u1ea1")
    assert time.process_time() - started < 10
