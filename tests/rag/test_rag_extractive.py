"""The keyless answerer: what it answers, cites and declines."""

import pytest

from rageval_dagster.embedding.models import TransformerEmbedder
from rageval_dagster.rag.extractive import DECLINED_TEXT, MIN_SUPPORT, ExtractiveAnswerer, Match, compose, read_passage
from rageval_dagster.records import Answer, Item
from rageval_dagster.settings import DEFAULT_EMBEDDING_MODEL

ANSWERER = ExtractiveAnswerer(TransformerEmbedder(DEFAULT_EMBEDDING_MODEL))
TOMATOES = (
    "Tomatoes\nThe tomato is the fruit of a plant of the nightshades. It was brought to Europe in the sixteenth "
    "century by the Spanish. It wants sun and a warm place."
)
ENGINES = "A diesel engine ignites its fuel by compression. It has no spark plugs."


def ask(question: str, *contexts: str) -> Answer:
    (outcome,) = ANSWERER.answer([Item(question)], [contexts])
    assert outcome.answer is not None
    return outcome.answer


def test_the_fitting_sentence_is_given_with_its_context() -> None:
    answer = ask("When was the tomato brought to Europe?", ENGINES, TOMATOES)
    assert answer == Answer("It was brought to Europe in the sixteenth century by the Spanish [2].")


def test_it_declines_where_nothing_fits() -> None:
    for question in ("Who won the football world cup in 1998?", "What does a tomato cost in Norway?", "", "???"):
        assert ask(question, TOMATOES, ENGINES) == Answer(DECLINED_TEXT, declined=True)
    assert ask("When was the tomato brought to Europe?").declined
    assert ask("When was the tomato brought to Europe?", "", " \n ").declined


def test_a_heading_alone_is_no_answer() -> None:
    text = "Rick Grimes\nRobert Kirkman and Tony Moore invented this figure for a series of comic books."
    assert ask("When does Rick Grimes die?", text).declined


def test_a_long_context_is_read_to_its_end() -> None:
    padding = "The committee met again and adjourned without any result at all. " * 30
    answer = ask("When was the tomato brought to Europe?", padding + TOMATOES.replace("Tomatoes\n", ""))
    assert "sixteenth century" in answer.text


def test_answers_do_not_depend_on_the_other_questions() -> None:
    questions = ["When was the tomato brought to Europe?", "How does a diesel engine ignite its fuel?"] * 9
    together = ANSWERER.answer([Item(question) for question in questions], [[TOMATOES, ENGINES]] * 18)
    assert [outcome.answer for outcome in together[:2]] == [
        ask(question, TOMATOES, ENGINES) for question in questions[:2]
    ]
    assert together[:2] == together[16:]


def match(sentence: str, support: float, context: int = 0) -> Match:
    return Match(context, sentence, support, support)


def test_a_close_second_sentence_is_added_in_the_order_of_the_contexts() -> None:
    matches = [match("First.", 0.70, 0), match("Far.", 0.40, 0), match("Second.", 0.72, 2)]
    assert compose(matches) == Answer("First [1]. Second [3].")
    assert compose([match("First.", 0.60), match("Second.", 0.80, 1)]) == Answer("Second [2].")
    assert compose([match("Same.", 0.8, 1), match("Same.", 0.8, 2)]) == Answer("Same [2].")


def test_neighbouring_sentences_decide_whether_to_answer_not_what() -> None:
    around = [Match(0, "He was born there in 1850.", 0.5, MIN_SUPPORT), Match(0, "It rains.", 0.4, MIN_SUPPORT)]
    assert compose(around) == Answer("He was born there in 1850 [1].")
    assert compose([Match(0, "It rains.", 0.5, MIN_SUPPORT - 0.001)]).declined


@pytest.mark.parametrize(
    ("sentence", "cited"),
    [
        ("It is so.", "It is so [1]."),
        ('He said "no!"', 'He said "no [1]!"'),
        ("No mark", "No mark [1]"),
        ("番茄原产于南美洲。", "番茄原产于南美洲 [1]。"),
    ],
)
def test_citations_stay_inside_their_sentence(sentence: str, cited: str) -> None:
    assert compose([match(sentence, 0.9)]).text == cited


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("Title\nIt is so.", ["It is so."]),
        ("Title\n\nIt is so. Or not.", ["It is so.", "Or not."]),
        (
            "Das gilt z. B. für Dr. Maier. Alle anderen zahlen bzw. warten bis zum Ende.",
            ["Das gilt z. B. für Dr. Maier.", "Alle anderen zahlen bzw. warten bis zum Ende."],
        ),
        ("the rest of a sentence\ncut by hand. Another.", ["the rest of a sentence cut by hand.", "Another."]),
        ("A line that was wrapped\nby an editor. Another.", ["A line that was wrapped by an editor.", "Another."]),
        ("Only a title", ["Only a title"]),
        ("", []),
    ],
)
def test_what_is_a_heading(text: str, sentences: list[str]) -> None:
    assert list(read_passage(text).sentences) == sentences
