"""The table of rules, and what it says of single pairs."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rageval_dagster.benchmark.rules import RULES, Pair, RuleResult, benchmark_values, longest_common_run, measure
from rageval_dagster.benchmark.wording import CLEAN, noise_kind, offers
from rageval_dagster.records import Evidence, Item

CHUNK = (
    "The Fram was built in 1892 by Colin Archer in Larvik. Its rounded hull let the ice lift the ship. "
    "Roald Amundsen sailed on it to the Bay of Whales in 1911."
)
GOOD = Item(
    "Who designed and built the polar ship Fram?",
    ("Colin Archer",),
    (Evidence("ships.md", quote="The Fram was built in 1892 by Colin Archer in Larvik."),),
    category="entity_specific",
    origin="extractive",
)


def broken(item: Item, kind: str = "generated", chunk: str | None = CHUNK, elsewhere: tuple[str, ...] = ()) -> set[str]:
    values = measure(Pair("p", item, "imported" if kind == "imported" else "generated", chunk, elsewhere))
    return {rule.id for rule in RULES if rule.id in values and not rule.holds(values[rule.id])}


def test_a_good_pair_breaks_no_rule() -> None:
    assert broken(GOOD) == set()


@pytest.mark.parametrize(
    ("rule", "change"),
    [
        ("question_present", {"question": "  "}),
        ("question_length", {"question": "Fram builder?"}),
        ("question_length", {"question": "Who " + "really " * 60 + "built the Fram?"}),
        ("question_not_yes_no", {"question": "Was the polar ship Fram built by an Englishman?"}),
        ("question_self_contained", {"question": "According to the passage, who built the polar ship Fram?"}),
        ("question_self_contained", {"question": "By whom was it built and where?"}),
        ("question_not_copied", {"question": "Who: the Fram was built in 1892 by?"}),
        ("question_keeps_answer", {"question": "Which ship did Colin Archer design and build?"}),
        ("answer_present", {"answers": ()}),
        ("answer_present", {"answers": (" ",)}),
        ("answer_length", {"answers": ("Colin Archer in Larvik " * 30,)}),
        ("answer_grounded", {"answers": ("Fridtjof Nansen",)}),
        ("answer_grounded", {"answers": ("Colin Archer in Larvik in 1893",)}),
        ("evidence_in_chunk", {"evidence": ()}),
        ("evidence_in_chunk", {"evidence": (Evidence("ships.md"),)}),
        ("evidence_in_chunk", {"evidence": (Evidence("ships.md", quote="The Fram was built by Colin Archer."),)}),
        ("category_known", {"category": "trivia"}),
        ("multi_hop_evidence", {"category": "multi_hop"}),
        ("no_noise", {"answers": ("...", "--")}),
    ],
)
def test_each_rule_finds_its_offence(rule: str, change: dict) -> None:
    assert rule in broken(replace(GOOD, **change))


@pytest.mark.parametrize(
    ("question", "answer", "language"),
    [
        ("Which ship was built first, the Fram or the Gjøa?", "Fram", "en"),
        ("Which ship was built first, the Fram or the Gjøa?", "the Gjøa", "en"),
        ("Is the Fram or the Gjøa older?", "The Fram", "en"),
        ("Which of them is the oldest: the Fram, the Gjøa, or the Maud?", "Gjøa", "en"),
        ("Welches Schiff ist älter, die Fram oder die Gjøa?", "die Gjøa", "de"),
        ("Quel navire est le plus ancien, le Fram ou le Gjøa ?", "Fram", "fr"),
        ("¿Qué barco es más antiguo, el Fram o el Gjøa?", "Fram", "es"),
        ("哪艘船更早建成，前进号还是约阿号？", "约阿号", "zh"),
    ],
)
def test_a_choice_may_offer_its_answer(question: str, answer: str, language: str) -> None:
    assert offers(question, answer, language)
    if language == "en":
        assert "question_keeps_answer" not in broken(replace(GOOD, question=question, answers=(answer,)))


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("Which ship did Colin Archer or his son build?", "ship"),
        ("Which architect or builder, Colin Archer, made the Fram?", "Colin Archer"),
        ("Which county did the Fram or the Gjøa sail from, Vestfold?", "Vestfold"),
        ("Is the Fram older than the Gjøa or not?", "Gjøa"),
        ("Or is the Fram older?", "the Fram"),
        ("Which is older, the Fram or?", "Fram"),
        ("Which ship is older, the Fram and the Gjøa?", "Fram"),
    ],
)
def test_an_answer_that_is_no_alternative_is_given_away(question: str, answer: str) -> None:
    assert not offers(question, answer, "en")
    assert "question_keeps_answer" in broken(replace(GOOD, question=question, answers=(answer,)), "imported", None)


@pytest.mark.parametrize(
    "change",
    [
        {"evidence": (Evidence("ships.md", quote="The Fram was built in 1892\n   by Colin Archer in Larvik."),)},
        {"answerable": False, "answers": ()},
        {"question": "By whom was it designed?", "history": ({"role": "user", "content": "What is the Fram?"},)},
    ],
    ids=["white space in a quote", "no answer of an unanswerable one", "a pronoun that a conversation explains"],
)
def test_what_a_good_pair_may_be(change: dict) -> None:
    assert broken(replace(GOOD, **change)) == set()


def test_a_pair_whose_chunk_is_gone_is_no_good() -> None:
    assert "evidence_in_chunk" in broken(GOOD, chunk=None)


def test_a_multi_hop_pair_quotes_two_documents() -> None:
    other = "Larvik is a town in Vestfold."
    evidence = (*GOOD.evidence, Evidence("towns.md", quote=other))
    item = replace(GOOD, question="In which county was the Fram built?", answers=("Vestfold",), evidence=evidence)
    item = replace(item, category="multi_hop")
    assert broken(item, elsewhere=(f"Towns. {other} It has a harbour.",)) == set()
    assert broken(item, elsewhere=("Towns. Bergen is a town in Vestland.",)) == {"evidence_in_chunk"}


def test_imported_questions_are_not_asked_for_what_they_need_not_have() -> None:
    assert broken(Item("Who built the Fram?", category="our own"), "imported", None) == set()
    ungrounded = replace(GOOD, answers=("Fridtjof Nansen",))
    assert broken(ungrounded, "imported", None) == {"answer_grounded"}
    assert broken(replace(ungrounded, evidence=(Evidence("ships.md"),)), "imported", None) == set()


@pytest.mark.parametrize(
    ("question", "answer", "quote"),
    [
        # "Was" asks for a thing in German, and "her" means "every" in Turkish.
        ("Was kostet die Fahrt über die Brücke?", "2,50 Euro", "Die Fahrt über die Brücke kostet seit 2019 2,50 Euro."),
        (
            "Müze her gün saat kaçta açılıyor?",
            "dokuzda",
            "Şehirdeki müze her gün sabah saat dokuzda ziyarete açılıyor.",
        ),
        ("谁建造了这座桥？", "李文华", "这座桥由工程师李文华设计，并在三年之内建造完成。"),
        ("奥斯陆大约建于哪一年？", "公元1040年", "奥斯陆是挪威的首都，建于公元1040年左右。人口七十万。"),
        (
            "根据当地博物馆保存下来的旧地图和十九世纪的信件，最早从南岸的渔村通往北岸集市的那座木桥，究竟是在哪一位工程师的"
            "主持之下，在洪水之后的第三年重新建造完成并且向公众开放的？",
            "李文华",
            "洪水之后的第三年，在工程师李文华的主持之下，木桥重新建造完成。",
        ),
        ("Wo liegen die Pfeiler?", "in dem Bett", "Die Pfeiler der alten Brücke liegen im Bett des Flusses."),
    ],
)
def test_good_pairs_of_other_languages_break_no_rule(question: str, answer: str, quote: str) -> None:
    item = replace(GOOD, question=question, answers=(answer,), evidence=(Evidence("a", quote=quote),))
    assert broken(item, chunk=quote) == set()


@pytest.mark.parametrize(
    ("rule", "question"),
    [
        ("question_self_contained", "Was steht laut dem Text über die Brücke?"),
        ("question_length", "为什么" + "非常" * 60 + "重要？"),
        ("question_length", "谁？"),
    ],
)
def test_other_languages_can_break_them(rule: str, question: str) -> None:
    assert rule in broken(replace(GOOD, question=question), "imported", None)


def test_a_long_text_without_spaces_is_no_repetition() -> None:
    kana = "".join(chr(0x3042 + 7 * number % 40) + chr(0x3042 + 11 * number % 37) for number in range(600))
    assert noise_kind(kana) == CLEAN
    assert noise_kind("同じ文です。" * 40) == "repetition"


def test_values_hold_no_text() -> None:
    item = replace(GOOD, question="Who designed the canary ship?", answers=("canary",))
    values = measure(Pair("p", item, "generated", "A canary text."))
    assert "canary" not in repr(values)


@pytest.mark.parametrize(("origin", "missing"), [("llm", "factual_lookup,multi_hop"), ("extractive", None)])
def test_missing_categories_are_named_of_a_model_that_could_write_them(origin: str, missing: str | None) -> None:
    items = [replace(GOOD, origin=origin), replace(GOOD, category="temporal", origin=origin)]
    values = benchmark_values(items, rejected=6, kind="generated")
    assert values == {"benchmark_not_empty": 2, "rejected_share": 0.75, "categories_covered": missing}


letters = st.lists(st.sampled_from("abc"), max_size=12)


@given(letters, letters)
def test_the_longest_common_run_is_that_of_trying_all(left: list[str], right: list[str]) -> None:
    runs = [left[i:j] for i in range(len(left)) for j in range(i + 1, len(left) + 1)]
    shared = (len(run) for run in runs if any(right[k : k + len(run)] == run for k in range(len(right))))
    assert longest_common_run(left, right) == max(shared, default=0)


@settings(deadline=None)
@given(st.text(max_size=60), st.text(max_size=60), st.text(max_size=120), st.sampled_from(["generated", "imported"]))
def test_any_pair_can_be_measured(question: str, answer: str, chunk: str, kind: str) -> None:
    item = Item(question, (answer,), (Evidence("d", quote=answer),), answerable=bool(answer))
    broken(item, kind, chunk)


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (RuleResult("no_noise", True, True, 50), "All 50 questions follow this rule."),
        (RuleResult("no_noise", True, True, 0), "No question was checked in this run."),
        (RuleResult("no_noise", True, True, 50, (), ("a", "b")), "2 of 50 questions broke it and were kept out."),
        (RuleResult("no_noise", False, False, 50, ("a",)), "1 of 50 questions in the benchmark break this rule."),
        (RuleResult("rejected_share", False, False, 1), "It does not hold."),
        (RuleResult("categories_covered", False, False, 1, ("temporal",)), "It does not hold: temporal."),
    ],
)
def test_what_came_of_a_rule_is_a_sentence(found: RuleResult, said: str) -> None:
    assert found.sentence == said
