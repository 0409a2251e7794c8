"""What the wording heuristics catch, and what they must leave alone."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rageval_dagster.benchmark.wording import (
    CLEAN,
    has_dangling_pronoun,
    is_yes_no,
    noise_kind,
    refers_to_source,
    tokens,
)

any_text = st.text(max_size=200)


@pytest.mark.parametrize(
    ("question", "answer", "expected"),
    [
        ("Is print a function in Python 3?", "", True),
        ("Does next() raise StopIteration", "", True),
        ("In Python 3, is print a function?", "", True),
        ("When the generator is exhausted, does next() raise an error?", "", True),
        ("Can't a tuple be changed?", "", True),
        ("Python is interpreted, isn't it?", "", True),
        ("Is it legal or not?", "", True),
        ("True or false: a tuple is mutable", "", True),
        ("How does a tuple behave, is it mutable: yes or no?", "", True),
        ("Was gilt für Tupel?", "Nein.", True),
        ("What about tuples?", "No, they cannot be changed", True),
        ("元组可以修改吗？", "不能", True),
        ("What is a tuple?", "No-argument sequence", False),
        ("Is Python compiled or interpreted?", "interpreted", False),
        ("In which year, according to Gibbon, did Rome fall?", "476", False),
        ("What, in Python, is a tuple?", "an immutable sequence", False),
        ("Will Smith played which role in Ali?", "the lead", False),
        ("What does bool(1) return?", "True", False),
        ("Name the capital of Norway.", "Oslo", False),
        ("Wie heißt die Hauptstadt von Norwegen?", "Oslo", False),
    ],
)
def test_which_questions_are_answered_by_yes_or_no(question: str, answer: str, expected: bool) -> None:
    assert is_yes_no(question, [answer] if answer else []) is expected


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("What does the passage above describe?", True),
        ("Was gilt laut diesem Abschnitt für Tupel?", True),
        ("D'après le texte, quand le pont fut-il construit ?", True),
        ("Según el pasaje, ¿quién construyó el puente?", True),
        ("Secondo il testo, chi costruì il ponte?", True),
        ("Wie bouwde volgens de tekst de brug?", True),
        ("De acordo com o texto, quem construiu a ponte?", True),
        ("Kto według tekstu zbudował most?", True),
        ("根据本文，谁建造了这座桥？", True),
        ("この文章によると、橋は誰が建てましたか。", True),
        ("According to the text, who founded the company?", True),
        ("What is mentioned in the document about leave?", True),
        ("Which options does this section list?", True),
        ("What does the author say about tuples?", True),
        ("How many rows has the table above?", True),
        ("What does the following example print?", True),
        ("In the passage, who is the king?", True),
        ("Which rule is described above?", True),
        ("What belongs into the context of an exception?", False),
        ("Which HTML document element holds the title?", False),
        ("In the text of the constitution, who declares war?", False),
        ("Which passage connects the Atlantic to the Pacific north of Canada?", False),
        ("According to the author of PEP 8, how long may a line be?", False),
        ("Which article of the treaty deals with fishing?", False),
    ],
)
def test_which_questions_refer_to_the_passage(question: str, expected: bool) -> None:
    assert refers_to_source(question) is expected


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("What did he do in 1994?", True),
        ("When was it founded?", True),
        ("Who makes it?", True),
        ("What does this function return?", True),
        ("What is its capital?", True),
        ("Who was his father?", True),
        ("What is the name of his dog?", True),
        ("In which year was she born?", True),
        ("Which exception does it raise?", True),
        ("What does our library provide?", True),
        ("How many of them were there?", True),
        ("What does a function return when it has no return statement?", False),
        ("What is Python and who created it?", False),
        ("Which country has its capital at Oslo?", False),
        ("How do plants make their food?", False),
        ("Before he became president, what was Lincoln's profession?", False),
        ("Who gained fame for her actions in the civil war?", False),
        ("How long does it take to compile CPython?", False),
        ("What does it mean when a chunk is stale?", False),
        ("Who wrote the film In His Eyes?", False),
        ("When the file is empty, what does it hold?", False),
        ("What happened to those who stayed?", False),
    ],
)
def test_which_pronouns_have_no_noun(question: str, expected: bool) -> None:
    assert has_dangling_pronoun(question) is expected


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("empty", " -- ... \n ***"),
        ("damaged", "T h i s  w a s  p u l l e d  a p a r t  b y  a  P D F  reader"),
        ("damaged", "The (cid:12)rst (cid:13)oor of the o(cid:14)ce was closed."),
        ("damaged", "Gr\ufffd\ufffde aus M\ufffdnchen"),
        ("contents", "1 Introduction ........ 1\n2 Methods ........ 7\n3 Results ........ 12\n"),
        ("licence", "Permission is hereby granted, free\nof charge, to any person obtaining a copy"),
        ("links", "See https://example.org/a/very/long/path/of/a/page and https://example.org/another/page/of/it"),
        ("symbols", "{ [ ( x ) ] } => || && ;; $$ %% @@ !! ?? << >> ++ -- /* */ // \\\\ <> {} [] ()"),
        ("site", "Skip to content. Sign in. Privacy policy. Terms of use. All rights reserved by Example."),
        ("repetition", "buy now " * 40),
        (CLEAN, "The licence of the project is the Apache License, version 2.0; see LICENSE."),
        (CLEAN, "| operator | meaning |\n|----------|---------|\n| and      | logical and of two values |\n"),
        (CLEAN, "Oslo ist die Hauptstadt Norwegens und wurde um 1040 gegründet."),
        (CLEAN, "奥斯陆是挪威的首都，建于公元一零四零年左右。"),
        (CLEAN, "नॉर्वे की राजधानी ओस्लो है और यह देश का सबसे बड़ा शहर है।"),
        (CLEAN, "__init__()"),
        (CLEAN, "1969"),
    ],
)
def test_what_is_noise(kind: str, text: str) -> None:
    assert noise_kind(text) == kind


def test_words_are_found_in_every_script() -> None:
    assert tokens("Größe: 1040 m, 奥斯陆") == ["grösse", "1040", "m", "奥", "斯", "陆"]


@settings(deadline=None)
@given(any_text, any_text)
def test_any_text_gets_a_verdict(question: str, answer: str) -> None:
    assert is_yes_no(question, [answer]) in (True, False)
    assert refers_to_source(question) in (True, False)
    assert has_dangling_pronoun(question) in (True, False)
    assert noise_kind(question)
