"""What the wording heuristics catch, and what they must leave alone."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rageval_dagster.benchmark.noise import CLEAN, noise_kind
from rageval_dagster.benchmark.question_wording import has_dangling_pronoun, is_yes_no, refers_to_source
from rageval_dagster.benchmark.words import tokens

any_text = st.text(max_size=200)


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("Is print a function in Python 3?", ""),
        ("Does next() raise StopIteration", ""),
        ("In Python 3, is print a function?", ""),
        ("When the generator is exhausted, does next() raise an error?", ""),
        ("Can't a tuple be changed?", ""),
        ("Python is interpreted, isn't it?", ""),
        ("Is it legal or not?", ""),
        ("True or false: a tuple is mutable", ""),
        ("How does a tuple behave, is it mutable: yes or no?", ""),
        ("Was gilt für Tupel?", "Nein."),
        ("What about tuples?", "No, they cannot be changed"),
        ("元组可以修改吗？", "不能"),
    ],
)
def test_yes_no_questions_are_found(question: str, answer: str) -> None:
    assert is_yes_no(question, [answer] if answer else [])


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("What is a tuple?", "No-argument sequence"),
        ("Is Python compiled or interpreted?", "interpreted"),
        ("In which year, according to Gibbon, did Rome fall?", "476"),
        ("What, in Python, is a tuple?", "an immutable sequence"),
        ("Will Smith played which role in Ali?", "the lead"),
        ("What does bool(1) return?", "True"),
        ("Name the capital of Norway.", "Oslo"),
        ("Wie heißt die Hauptstadt von Norwegen?", "Oslo"),
    ],
)
def test_other_questions_are_no_yes_no_questions(question: str, answer: str) -> None:
    assert not is_yes_no(question, [answer])


@pytest.mark.parametrize(
    "question",
    [
        "What does the passage above describe?",
        "Was gilt laut diesem Abschnitt für Tupel?",
        "D'après le texte, quand le pont fut-il construit ?",
        "Según el pasaje, ¿quién construyó el puente?",
        "Secondo il testo, chi costruì il ponte?",
        "Wie bouwde volgens de tekst de brug?",
        "De acordo com o texto, quem construiu a ponte?",
        "Kto według tekstu zbudował most?",
        "根据本文，谁建造了这座桥？",
        "この文章によると、橋は誰が建てましたか。",
        "According to the text, who founded the company?",
        "What is mentioned in the document about leave?",
        "Which options does this section list?",
        "What does the author say about tuples?",
        "How many rows has the table above?",
        "What does the following example print?",
        "In the passage, who is the king?",
        "Which rule is described above?",
    ],
)
def test_references_to_the_passage_are_found(question: str) -> None:
    assert refers_to_source(question)


@pytest.mark.parametrize(
    "question",
    [
        "What belongs into the context of an exception?",
        "Which HTML document element holds the title?",
        "In the text of the constitution, who declares war?",
        "Which passage connects the Atlantic to the Pacific north of Canada?",
        "According to the author of PEP 8, how long may a line be?",
        "Which article of the treaty deals with fishing?",
    ],
)
def test_words_that_only_sound_like_the_passage_are_left_alone(question: str) -> None:
    assert not refers_to_source(question)


@pytest.mark.parametrize(
    "question",
    [
        "What did he do in 1994?",
        "When was it founded?",
        "Who makes it?",
        "What does this function return?",
        "What is its capital?",
        "Who was his father?",
        "What is the name of his dog?",
        "In which year was she born?",
        "Which exception does it raise?",
        "What does our library provide?",
        "How many of them were there?",
    ],
)
def test_pronouns_without_a_noun_are_found(question: str) -> None:
    assert has_dangling_pronoun(question)


@pytest.mark.parametrize(
    "question",
    [
        "What does a function return when it has no return statement?",
        "What is Python and who created it?",
        "Which country has its capital at Oslo?",
        "How do plants make their food?",
        "Before he became president, what was Lincoln's profession?",
        "Who gained fame for her actions in the civil war?",
        "How long does it take to compile CPython?",
        "What does it mean when a chunk is stale?",
        "Who wrote the film In His Eyes?",
        "When the file is empty, what does it hold?",
        "What happened to those who stayed?",
    ],
)
def test_pronouns_with_a_noun_are_left_alone(question: str) -> None:
    assert not has_dangling_pronoun(question)


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
    ],
)
def test_noise_is_found(kind: str, text: str) -> None:
    assert noise_kind(text) == kind


@pytest.mark.parametrize(
    "text",
    [
        "The licence of the project is the Apache License, version 2.0; see LICENSE.",
        "| operator | meaning |\n|----------|---------|\n| and      | logical and of two values |\n",
        "Oslo ist die Hauptstadt Norwegens und wurde um 1040 gegründet.",
        "奥斯陆是挪威的首都，建于公元一零四零年左右。",
        "नॉर्वे की राजधानी ओस्लो है और यह देश का सबसे बड़ा शहर है।",
        "__init__()",
        "1969",
    ],
)
def test_text_is_no_noise(text: str) -> None:
    assert noise_kind(text) == CLEAN


def test_words_are_found_in_every_script() -> None:
    assert tokens("Größe: 1040 m, 奥斯陆") == ["grösse", "1040", "m", "奥", "斯", "陆"]


@settings(deadline=None)
@given(any_text, any_text)
def test_any_text_gets_a_verdict(question: str, answer: str) -> None:
    assert is_yes_no(question, [answer]) in (True, False)
    assert refers_to_source(question) in (True, False)
    assert has_dangling_pronoun(question) in (True, False)
    assert noise_kind(question)
