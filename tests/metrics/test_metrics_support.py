"""Support: 1 for what is copied, less for each kind of thing that the contexts do not say, and human labels."""

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from metric_samples import judged_rows

from rageval_dagster.metrics.support import support
from rageval_dagster.statistics.agreement import auroc

TOWER = (
    "The Eiffel Tower is a lattice tower in Paris. It was completed in 1889 by the company of Gustave Eiffel. "
    "Early critics, among them Guy de Maupassant, did not like it, but it is popular with visitors today. "
    "It is 330 metres tall and was closed during the war."
)
BRIDGE = "The Brooklyn Bridge in New York was opened in 1883. John Roebling designed it; it is 486 metres long."
FAITHFUL = "The Eiffel Tower was completed in 1889. It is popular with visitors today."


def value(answer: str, contexts: Sequence[str] = (TOWER, BRIDGE)) -> float:
    found = support(answer, contexts)
    assert found is not None
    return found


@pytest.mark.parametrize(
    "sentence",
    [
        "It was completed in 1889 by the company of Gustave Eiffel.",
        "Early critics, among them Guy de Maupassant, did not like it, but it is popular with visitors today.",
        "埃菲尔铁塔于1889年完工。",
        "エッフェル塔は1889年に完成した。",
        "에펠탑은 1889년에 완공되었다.",
        "หอไอเฟลสร้างเสร็จในปี 1889",
        "اكتمل برج إيفل في عام ١٨٨٩.",
        "Эйфелева башня была построена в 1889 году и не имеет себе равных.",
        "एफिल टॉवर 1889 में बनकर तैयार हुआ था।",
        "Der Eiffelturm wurde 1889 nicht ohne Widerstand fertiggestellt.",
        "Mnara wa Eiffel ulikamilika mwaka wa 1889 mjini Paris.",
        "It rose by -0.133%, or $1,234.50 👍.",
        "It isn’t as tall as the mast [3] that can't be seen.",
        "Dates as 2020-05-12 and versions as 1.2.3 stand.",
    ],
)
def test_a_sentence_copied_from_however_long_a_context_has_one(sentence):
    contexts = [f"{TOWER * 50}\n\n{sentence} {BRIDGE * 50}", BRIDGE]
    assert value(sentence, contexts) == 1.0
    assert value(sentence, [sentence]) == 1.0


@pytest.mark.parametrize(
    ("said", "instead"),
    [
        ("1889", "1890"),
        ("1889", "1883"),  # the other context's number
        ("The Eiffel Tower", "The Louvre"),
        ("Eiffel", "Brooklyn"),
        ("was completed", "was not completed"),
        ("was completed", "wasn't completed"),
        ("popular", "unpopular"),
        ("today.", "today. Lightning strikes it every summer."),
    ],
)
def test_what_the_contexts_do_not_say_lowers_it(said, instead):
    assert value(FAITHFUL.replace(said, instead)) < value(FAITHFUL)


def test_numbers_names_and_negations_weigh_more_than_other_words():
    reworded = value(FAITHFUL.replace("completed", "finished"))
    for said, instead in (("1889", "1890"), ("was completed", "was not completed"), ("Eiffel", "Louvre")):
        assert value(FAITHFUL.replace(said, instead)) < reworded
    assert reworded < value(FAITHFUL.replace("completed in", "completed about")) < 1.0
    assert value("It cost $1,234.00 then.", ["It cost 1234 then."]) == 1.0


def test_a_negation_that_a_context_has_of_another_word_is_none_of_this_one():
    assert value("Critics did not like it.") > value("Critics did like it, but visitors today do not.")
    assert value("The tower was not completed.") < value("The tower was completed.") * 0.7


def test_that_the_contexts_do_not_say_something_is_no_contradiction():
    assert value("The passages do not mention the weight.") > value("The passages mention the weight.")
    assert value("The tower does not weigh much.") < value("The tower does weigh much.") * 0.7


@pytest.mark.parametrize(
    "cited",
    [
        "The Eiffel Tower was completed in 1889 [1]. It is popular with visitors today [1][2].",
        "The Eiffel Tower was completed in 1889 [handbook.pdf:12]. It is popular with visitors today.",
        "The Eiffel Tower was completed in 1889 (source: guide 7). It is popular with visitors today.",
        "**The Eiffel Tower** was completed in _1889_.\n\n- It is popular with visitors today.",
        "1. The Eiffel Tower was completed in 1889.\n2. It is popular with visitors today.",
    ],
)
def test_citations_lists_and_marks_do_not_count(cited):
    assert value(cited) >= value(FAITHFUL)


def test_words_that_stand_together_in_a_context_count_more_than_the_same_ones_apart():
    together = ["Rivers freeze slowly. Deserts bloom rarely after rain. Glaciers melt."]
    apart = [
        "Deserts are wide and dry and hot and old; sand, salt, stone, rock. Orchids bloom. Foxes rarely hunt here."
    ]
    assert value("Deserts bloom rarely", together) > value("Deserts bloom rarely", apart)


def test_nothing_to_judge_and_nothing_to_judge_by():
    assert support("", [TOWER]) is None
    assert support(" \n", []) is None
    assert support("[1] [2]", [TOWER]) is None
    assert support("…?! 👍", [TOWER]) is None
    assert support("Paris", []) == 0.0
    assert support("Paris", ["", " \n"]) == 0.0


TOLD = "The a is not in Paris Rome town towns king of 1889 330 1,200 never popular built today visitors".split()
sentences = st.lists(st.sampled_from(TOLD), min_size=1, max_size=9).map(" ".join)
texts = st.lists(sentences, min_size=1, max_size=3).map(lambda parts: ". ".join(parts) + ".")


@settings(max_examples=100, deadline=None)
@given(texts, st.lists(texts, min_size=1, max_size=3), st.randoms(use_true_random=False))
def test_neither_order_nor_repetition_of_contexts_matters(answer, contexts, random):
    shuffled = contexts + contexts[:1]
    random.shuffle(shuffled)
    assert support(answer, shuffled) == support(answer, contexts)


@settings(max_examples=100, deadline=None)
@given(texts, st.lists(texts, max_size=3), texts)
def test_a_further_context_never_lowers_it(answer, contexts, further):
    assert value(answer, [*contexts, further]) >= value(answer, contexts) - 1e-9


@settings(max_examples=100, deadline=None)
@given(texts, st.lists(texts, max_size=2))
def test_a_copy_has_one_whatever_else_is_there(answer, contexts):
    assert value(answer, [*contexts, answer]) == 1.0


def test_a_context_with_the_opposite_is_the_one_way_to_lower_it():
    assert value("It is unpopular.", ["It is tall."]) > value("It is unpopular.", ["It is tall.", "It is popular."])


@pytest.mark.parametrize(
    ("name", "at_least"),
    # The best of seed 000's share of sentences, the mean best cosine and token precision: .946, .609 and .525.
    [("begin_dev", 0.946), ("q2", 0.64), ("summedits", 0.58)],
)
def test_ahead_of_cosine_and_token_precision_on_human_labels(name, at_least):
    rows = judged_rows(name)
    values = [value(row["answer"], row["contexts"]) for row in rows]
    found = auroc(values, [row["label"] in ("Fully attributable", "consistent") for row in rows])
    assert found is not None
    assert found.mean >= at_least
