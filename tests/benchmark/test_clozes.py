"""Cloze questions: valid in every language and script, and for any text."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rageval_dagster.benchmark.by_rule.clozes import KINDS, clozes
from rageval_dagster.benchmark.by_rule.generator import generate, generator_name
from rageval_dagster.benchmark.rules import RULES, Pair, measure
from rageval_dagster.benchmark.validation import validate
from rageval_dagster.benchmark.wording import BLANK
from rageval_dagster.records import Chunk
from tests.language_samples import PARAGRAPHS

ENGLISH = (
    "London Bridge\nLondon Bridge is a bridge in Lake Havasu City, Arizona. It was dismantled in 1967 and relocated."
)


def answers(sentence: str, language: str | None) -> list[list[str]]:
    return [[cloze.answer for cloze in kind] for kind in clozes(sentence, language)]


@pytest.mark.parametrize("code", PARAGRAPHS)
def test_a_paragraph_of_any_language_gets_a_cloze_that_meets_every_rule(code: str) -> None:
    for seed in range(5):
        chunk = Chunk("a", PARAGRAPHS[code], "bridges")
        (candidate,) = generate([chunk], seed)
        item = candidate.item
        assert item is not None
        (quote,) = [evidence.quote for evidence in item.evidence]
        assert quote is not None
        assert quote in chunk.text
        assert item.question.replace(BLANK, item.answers[0]) == " ".join(quote.split())
        values = measure(Pair("p", item, "generated", chunk.text))
        assert [rule.id for rule in RULES if rule.id in values and not rule.holds(values[rule.id])] == []


@pytest.mark.parametrize(
    ("language", "sentence", "telling", "names"),
    [
        ("de", "Im Jahr 1837 baute der Schreiner Johann Weber für 2,50 Taler den A4-Steg.",
         ["1837", "2,50", "A4", "Schreiner Johann Weber"], []),
        ("de", "Der Verkehr musste im Winter am Fluss fast acht Monate lang ruhen.", [], []),
        ("fr", "Le pont fut construit par Moreau de Lyon puis repris à Paris pour 15 % moins cher.",
         ["15 %", "Moreau de Lyon"], ["Paris"]),
        ("es", "El puente «Viejo Amigo» fue inaugurado en Toledo por el rey.", ["Viejo Amigo"], ["Toledo"]),
        ("nl", "De brug is ontworpen door Pieter van den Berg en staat in Delft.", ["Pieter van den Berg"], ["Delft"]),
        ("ru", "Мост построила фирма Siemens Mobility в Москве.", ["Siemens Mobility"], ["Москве"]),
        ("zh", "1929年冬天，桥墩被浮冰损坏，市政府收取“过桥费”。", ["1929", "过桥费"], []),
        ("ja", "市役所は2005年からトラックとバスについて通行料を徴収しています。", ["2005", "トラック"], []),
    ],
)  # fmt: skip
def test_the_most_telling_answers_come_first(
    language: str, sentence: str, telling: list[str], names: list[str]
) -> None:
    first, second, _ = answers(sentence, language)
    assert sorted(first) == sorted(telling)
    assert second == names


def test_where_nothing_tells_more_long_words_are_blanked() -> None:
    *_, rare = answers("Der Verkehr musste im Winter am Fluss fast acht Monate lang ruhen.", "de")
    assert rare == ["Verkehr", "Winter", "Monate"]


def test_an_answer_stands_nowhere_else_in_its_question() -> None:
    assert answers("Von 1837 bis 1840 hielt die Brücke, und 1837 galt als gutes Jahr.", "de")[0] == ["1840"]
    assert answers("Der Ort ____ hatte im Jahr 1837 nur wenige Häuser.", "de") == [[], [], []]


def test_a_sentence_that_points_back_is_not_asked_about() -> None:
    assert answers("Sie wurde im Jahr 1837 gebaut.", "de") == [[], [], []]


def test_a_mixed_corpus_is_asked_about_in_the_language_of_each_chunk() -> None:
    chunks = [Chunk("en", ENGLISH, "a"), Chunk("de", PARAGRAPHS["de"], "b"), Chunk("zh", PARAGRAPHS["zh"], "c")]
    english, german, chinese = (candidate.item for candidate in generate(chunks, 0))
    assert english is not None
    assert BLANK not in english.question
    assert english.question.endswith("?")
    assert german is not None
    assert BLANK in german.question
    assert chinese is not None
    assert BLANK in chinese.question
    assert generate(chunks[:1], 0)[0].item == english


def test_a_language_that_is_set_holds_for_every_chunk() -> None:
    chunks = [Chunk("en", ENGLISH, "a")]
    (candidate,) = generate(chunks, 0, language="de")
    assert candidate.item is not None
    assert BLANK in candidate.item.question
    assert candidate.generator == generator_name(0, "de") != generator_name(0)
    (as_detected,) = generate(chunks, 0)
    assert generate(chunks, 0, language="en") == [replace(as_detected, generator=generator_name(0, "en"))]


def test_clozes_pass_validation_and_those_of_other_sources_are_still_no_copies() -> None:
    chunks = {code: Chunk(code, text, code) for code, text in PARAGRAPHS.items()}
    candidates = generate(list(chunks.values()), 0)
    texts = {chunk.content_key: chunk.text for chunk in chunks.values()}
    assert [candidate.reasons for candidate in validate(candidates, texts).rejected] == []
    copied = "Die Stadtverwaltung erhebt seit der Sanierung eine Maut von 2,50 Euro für ____."
    foreign = replace(candidates[0].item, question=copied, answers=("Lastwagen",), origin="llm")  # type: ignore[type-var]
    values = measure(Pair("p", foreign, "generated", PARAGRAPHS["de"]))
    assert values["question_not_copied"] == 1.0


PIECES = (
    "Die Brücke wurde 1837 gebaut . , „ “ « » 「 」 《 》 \" ' - – % ( ) ____ Johann Weber von der 2,50 A4 桥长米。 年 "
    "座桥 トラック です。 สะพาน ยาว เมตร 다리의 길이는 النهر سنة पुल है। İstanbul ﬁ ß ǅ é e\u0301 \ud800 \u200d "
    "\n \n\n # | ! ？"
).split(" ")
LANGUAGES = st.sampled_from([None, "de", "fr", "ja", "zh", "th", "xx"])


@settings(max_examples=300, deadline=None)
@given(st.lists(st.one_of(st.sampled_from(PIECES), st.text(max_size=8)), max_size=25).map(" ".join), LANGUAGES)
def test_any_sentence_gives_valid_clozes_or_none(sentence: str, language: str | None) -> None:
    kinds = clozes(sentence, language)
    assert len(kinds) == KINDS
    for cloze in [cloze for kind in kinds for cloze in kind]:
        assert cloze.question.count(BLANK) == 1
        assert cloze.question.replace(BLANK, cloze.answer) == sentence
        assert cloze.answer.casefold() not in cloze.question.casefold()
        assert any(map(str.isalnum, cloze.answer))
