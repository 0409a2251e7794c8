"""Questions by rule: readable, answered by a span of their chunk, self-contained, and total over any text."""

import json
import os
import time
from collections import Counter
from pathlib import Path

import handbook
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rageval_dagster.benchmark.by_rule.english import SUBJECT_QUESTIONS, subject_of
from rageval_dagster.benchmark.by_rule.generator import generate
from rageval_dagster.benchmark.by_rule.prose import eligible, sentences, title
from rageval_dagster.benchmark.related import Related
from rageval_dagster.records import Candidate, Chunk, Item
from tests.language_samples import PARAGRAPHS

DATA = Path(os.environ.get("RAGEVAL_DATA_DIR", Path(__file__).parents[2] / "../shared/data"))


@pytest.mark.parametrize("seed", range(4))
def test_of_a_technical_handbook_only_whole_sentences_that_stand_in_one_document_are_asked_about(seed: int) -> None:
    chunks = handbook.chunks()
    candidates = generate(chunks, seed)
    made = items(candidates)
    assert len({item.evidence[0].document_id for item in made}) == len(handbook.pages())
    for item in made:
        quote = item.evidence[0].quote or ""
        assert quote.startswith(("The ", "A ", "Log ", "Run ", "Scoped ", "Downloaded "))
        assert quote.endswith(".")
        assert quote.count("`") % 2 == 0
        assert not any(each in quote for each in (*handbook.FRAGMENTS, *handbook.REPEATED))
    options = [candidate for chunk, candidate in zip(chunks, candidates, strict=True) if "#### `save`" in chunk.text]
    assert {candidate.reasons for candidate in options} == {("stands_elsewhere",)}


def test_what_another_document_of_the_corpus_says_too_is_not_asked_about() -> None:
    page = Chunk(
        "a", "The ferry leaves the harbour of Larvik at nine. The ticket was designed by Ann Lee.", "ferries.md"
    )
    other = Chunk("b", "Good to know: the *ferry* leaves the\nharbour of Larvik at nine. Bring warm clothes.", "b.md")
    related = Related([page], corpus=lambda: [page, other])
    for seed in range(6):
        (item,) = items(generate([page], seed, {"ferries.md": 9}, facts=related.facts))
        assert item.evidence[0].quote == "The ticket was designed by Ann Lee."
    assert Related([page]).facts.repeated == frozenset()


def test_chunks_without_a_document_repeat_nothing_since_a_quote_stands_for_all_that_hold_it() -> None:
    chunks = [Chunk(name, "The ferry leaves the harbour of Larvik at nine.", name) for name in ("a", "b")]
    assert Related(chunks).facts.repeated == frozenset()


def items(candidates: list[Candidate]) -> list[Item]:
    return [candidate.item for candidate in candidates if candidate.item is not None]


BRIDGE = (
    "London Bridge\nLondon Bridge is a bridge in Lake Havasu City, Arizona. It was dismantled in 1967 and relocated. "
    "The bridge was purchased by Robert McCulloch from the City of London."
)


def test_a_question_brings_answer_quote_and_category() -> None:
    chunks = [Chunk("a", BRIDGE, "guides/bridges.md", page=3), Chunk("b", "The bridge was painted by Ann Lee.", "x")]
    for seed in range(6):
        (item,) = items(generate(chunks, seed, {"guides/bridges.md": 4}))[:1]
        (evidence,) = item.evidence
        assert (evidence.document_id, evidence.page) == ("guides/bridges.md", 3)
        assert evidence.quote is not None
        assert evidence.quote in BRIDGE
        assert item.answers[0] in evidence.quote
        assert item.origin == "extractive"
        assert item.category in {"entity_specific", "temporal", "factual_lookup"}


def test_another_seed_asks_other_questions_and_the_same_seed_the_same() -> None:
    chunks = [Chunk("a", BRIDGE, "bridges")]
    questions = [items(generate(chunks, seed, {"bridges": 9}))[0].question for seed in range(12)]
    assert len(set(questions)) > 1
    assert questions == [items(generate(chunks, seed, {"bridges": 9}))[0].question for seed in range(12)]


def test_the_only_chunk_about_a_subject_is_asked_about_in_everyday_words() -> None:
    (item,) = items(generate([Chunk("a", BRIDGE, "9fc13192e660")], 0))
    assert item.question in {question.format(subject="London Bridge") for question in SUBJECT_QUESTIONS}
    assert item.answers == ("London Bridge is a bridge in Lake Havasu City, Arizona.",)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "too_little_prose"),
        ("| 1 | 2 |\n" * 40, "too_little_prose"),
        ("import os\n\ndef main(argument):\n    return os.path.join(argument, 'somewhere')\n", "no_complete_sentence"),
        ("It is so that they are here and there now, and that this is all there is to it for them.", "no_question"),
    ],
)
def test_every_failure_is_a_candidate_with_its_reason(text: str, reason: str) -> None:
    (candidate,) = generate([Chunk("a", text, "d")], 0)
    assert (candidate.status, candidate.item, candidate.reasons) == ("failed", None, (reason,))


GUIDE = """\
## Setup

Run the installer once before the first start.

```
This line of code is not a sentence at all.
```

- The list item is no sentence for a quote.

See [the guide](https://example.org) for what the tool can do.
"""
PAGE = """\
---
title: The page. It was named by the team.
---

* Default: null
* The first value is read. The second value is kept.

  The item goes on with a text.

| A | It is the first cell. The cell goes on here. So it ends. |

The values are read once.
"""


@pytest.mark.parametrize(
    ("text", "quotes"),
    [
        (GUIDE, ["Run the installer once before the first start."]),
        (PAGE, ["The values are read once."]),
        ("/bin` so that they can be found by scripts.\n\nThe list (of names is open here.", []),
        # The chunk starts inside a block of code.
        ("The return value is not used here.\n```\n\nThe server is started by the main script.\n",
         ["The server is started by the main script."]),
        *(
            (f"{sentence} It was written twice by the team.", [sentence, "It was written twice by the team."])
            for sentence in (
                "The path is found in the `./packages/a/package.json` file.",
                "Run it with `echo Done! Bye. Now` and read what ../bin/tool says.",
                "Lines of the .npmrc file are read by a runtime, e.g. node.js, before v1.2.3 starts.",
                "The page example.org/a.html?x=1 was moved by Dr. Lee to another place.",
            )
        ),
    ],
)  # fmt: skip
def test_which_sentences_can_be_quoted(text: str, quotes: list[str]) -> None:
    assert [sentence.quote for sentence in sentences(text, "en")] == quotes


def test_a_quote_over_two_lines_is_exact_and_its_answer_on_one() -> None:
    text = "The server is started by the main\nscript of Robert Miller and his\ncolleagues every morning at seven."
    (sentence,) = sentences(text)
    assert sentence.quote == text
    assert "\n" not in sentence.text
    assert eligible(text)


@pytest.mark.parametrize(
    ("document_id", "heading", "title", "subject"),
    [
        ("assert", 'The "assert" statement', None, "the assert statement"),
        ("handbook/leave_policy.md", "Scope", None, "leave policy"),
        ("9fc13192e660", "Popeye", None, "Popeye"),
        ("0-1", None, None, None),
        ("pkgs.html", None, "Managing Packages", "Managing Packages"),
        ("pkgs.html", "5.2. Selecting the upload urgency", "Managing Packages", "Selecting the upload urgency"),
        ("pkgs.html", "Usage", "Managing Packages", "Managing Packages"),
        ("greenlet/README.md", None, None, "greenlet"),
        ("greenlet/README.md", "Getting started", None, "greenlet"),
        ("chapter-3.html", "Moorings", None, "Moorings"),
        ("README.md", "Usage", "Contents", None),
        ("git-config.html", "NAME", "NAME", "git config"),
        ("git-config.html", "SEE ALSO", None, "git config"),
        ("git/1.html", "Configuration File", None, "git"),
        ("faq/node.js.html", None, None, "node.js"),
    ],
)
def test_the_subject_is_the_most_telling_of_heading_title_name_and_folder(
    document_id: str, heading: str | None, title: str | None, subject: str | None
) -> None:
    assert subject_of(document_id, heading, title) == subject


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("6. Best Practices — handbook 12.18 documentation\n\nNavigation\n\nThe text starts here.", "Best Practices"),
        ("# Mooring a ship\n\nThe ship is moored at night.", "Mooring a ship"),
        ("The ship is moored at night.\n\n## Ropes\n\nA rope is needed.", None),
        ("# Part of the harbour contract\n\nThe text.", "Part of the harbour contract"),
        ("Section IV: Fees\n\nThe text.", "Fees"),
        ("# 2.0 release notes\n\nThe text.", "2.0 release notes"),
        ("close(2) ends it.\n\n# Ships at sea\n\nThe text.", None),
        ("", None),
    ],
)
def test_a_title_is_what_a_document_opens_with(text: str, expected: str | None) -> None:
    assert title(text) == expected


def test_a_passage_without_heading_is_asked_about_under_the_title_of_its_document() -> None:
    opening = Chunk("a", "4. Harbour Rules — handbook 1.0\n\nNavigation\n\nindex", "hbr.html", position=0)
    passage = Chunk(
        "b",
        "The `kedge` tool hands out berths. The berth of the old ferry was painted by Ann Lee.",
        "hbr.html",
        position=7,
    )
    for chunks, facts in (
        ([opening, passage], None),
        ([passage], Related([passage], corpus=lambda: [opening, passage]).facts),
    ):
        for seed in range(4):
            (item,) = items(generate(chunks, seed, {"hbr.html": 9}, facts=facts))
            assert "hbr" not in item.question
            assert item.question.startswith("Regarding Harbour Rules, ") or "kedge" in item.question


def test_a_title_that_another_document_has_too_names_neither() -> None:
    text = "# Harbour Rules\n\nThe {} was painted by Ann Lee. The harbour is a {} place for ships and their crews."
    north = Chunk("a", text.format("berth of the old ferry", "quiet"), "north.md", position=0)
    south = Chunk("b", text.format("crane of the new dock", "loud"), "south.md", position=0)
    for corpus, topic in (([north], "Harbour Rules"), ([north, south], "north")):
        facts = Related([north], corpus=lambda corpus=corpus: corpus).facts
        made = {items(generate([north], seed, {"north.md": 1}, facts=facts))[0].question for seed in range(6)}
        assert made == {question.format(subject=topic) for question in SUBJECT_QUESTIONS}


def test_a_heading_that_another_document_has_too_names_neither_where_something_else_does() -> None:
    text = "## Filling the Tanks\n\nIn the harbour of the town, the berth of the old ferry was painted by {}."
    north = Chunk("a", text.format("Ann Lee"), "north.md", position=3)
    south = Chunk("b", text.format("John Hall"), "south.md", position=3)
    unnamed = Chunk("c", text.format("Anna Berg"), "17.md", position=3)
    for chunk, corpus, topic in (
        (north, [north], "Filling the Tanks"),
        (north, [north, south], "north"),
        (unnamed, [unnamed, south], "Filling the Tanks"),
    ):
        facts = Related([chunk], corpus=lambda corpus=corpus: corpus).facts
        (item,) = items(generate([chunk], 0, {chunk.document_id: 9}, facts=facts))
        assert item.question.startswith(f"Regarding {topic}, what is said about ")


def test_what_three_chunks_of_the_corpus_hold_tells_none_of_them_however_they_come_in_batches() -> None:
    corpus = [
        Chunk(str(n), f"In no case may {name} go out to sea without the `retry_count` or so at hand.", f"{name}.md")
        for n, name in enumerate(("ferries", "moorings", "barges"))
    ]
    sizes = {chunk.document_id: 9 for chunk in corpus}
    alone = Related(corpus[:1], corpus=lambda: corpus[:1]).facts
    (item,) = items(generate(corpus[:1], 0, sizes, facts=alone))
    assert "retry_count" in item.question
    facts = Related(corpus[:1], corpus=lambda: corpus).facts
    assert items(generate(corpus[:1], 0, sizes, facts=facts)) == items(generate(corpus, 0, sizes)) == []


@pytest.mark.parametrize(
    ("sentence", "asked"),
    [
        ("It may help that `retry_count` is given, and it is there that services exist.", None),
        ("A better feel of what is going on is given by a wide array of lists.", None),
        ("Like the `select_one` type, except that it is not so for them.", None),
        ("In no case may a crew of ours go out to sea at all without the `retry_count` or so at hand.", "retry_count"),
        ("In no case may a crew of ours go out to sea at all without a POSIX Shell or two at hand.", "POSIX Shell"),
        ("In no case may a crew of ours go out to sea with git-add--interactive.perl.", "git-add--interactive.perl"),
        ("In no case has a crew of ours gone out to sea at all in a great storm since 1817.", "1817"),
        ("In Larvik, a crew may go out to sea with the Old Ferry, run by Ann Lee's father.", "Old Ferry and Ann Lee"),
        ("In no case may a crew of ours go out to sea at all with (`foo') and data (`?`) or so at hand.", None),
    ],
)
def test_what_is_said_is_asked_of_code_names_identifiers_and_years(sentence: str, asked: str | None) -> None:
    made = items(generate([Chunk("a", sentence, "ferry_rules.md", position=3)], 0, {"ferry_rules.md": 9}, "en"))
    assert [item.question for item in made] == (
        [] if asked is None else [f"Regarding ferry rules, what is said about {asked}?"]
    )


WORDS = (
    "The It A he was is are in 1967 on January 1 , 2009 ( ) which that of to by because when if has been made Paris "
    "John built . and \" ` ** [1] \ud800 é 中文。 \n \n\n ``` # > ____ can't don ' s % € been had should not Die "
    "Brücke wurde 1837 „ “ « » 「 」 2,50 A4 桥长米。 年 トラック です。 สะพาน ยาว เมตร 다리의 النهر पुल है। ﬁ ß ǅ"
).split(" ")


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.sampled_from(WORDS), max_size=80),
    st.text(max_size=80),
    st.text(max_size=20),
    st.integers(0, 3),
    st.sampled_from([None, "en", "de", "fr", "ja", "zh", "th", "xx"]),
)
def test_any_text_gives_one_candidate_whose_quote_and_answer_stand_in_the_chunk(
    tokens, text, document_id, seed, language
) -> None:
    german = f"{text}\n{PARAGRAPHS['de']} {text}"
    texts = {document_id: " ".join(tokens), "other": text + " ".join(tokens[::-1]) + ".", "german": german}
    chunks = [Chunk(str(number), each, name) for number, (name, each) in enumerate(texts.items())]
    candidates = generate(chunks, seed, language=language)
    for chunk, candidate in zip(chunks, candidates, strict=True):
        assert candidate.chunk_key == chunk.content_key
        if candidate.item is None:
            assert candidate.reasons
            continue
        quote = candidate.item.evidence[0].quote
        assert quote is not None
        assert quote in chunk.text
        assert candidate.item.answers[0] in " ".join(quote.split())


def test_a_store_that_names_no_document_is_asked_about_by_rare_words() -> None:
    places = ["Avonlea", "Brightwater", "Caldera", "Dunmore"]
    text = (
        "The lighthouse of {place} was founded in {year} by its engineer, and it has stood there ever since then. "
        "Visitors are allowed to enter from eight in the morning, and a ticket is sold for twelve crowns at the gate."
    )
    chunks = [
        Chunk(f"{number}", text.format(place=place, year=1801 + number), f"s{number}.html", position=0)
        for number, place in enumerate(places)
    ]
    questions = [candidate.item.question for candidate in generate(chunks, 0, language="en") if candidate.item]
    assert len(set(questions)) == len(places)
    assert all(question.startswith("What is said about ") for question in questions)


@pytest.mark.parametrize(
    "opening",
    [f"# A{' ' * 49_000}B\n\n", f"1.{' ' * 49_000}abc\n\n", f"# Gate {'(' * 8_000}x\n\n"],
    ids=["blanks in a heading", "blanks after a number", "a heading without end"],
)
def test_no_heading_however_odd_takes_longer_than_its_text_is_long(opening: str) -> None:
    text = opening + "".join(f"The keeper of gate{n} stayed at lighthouse{n} throughout winter. " for n in range(600))
    started = time.process_time()
    generate([Chunk("a", text, "lights.md", position=0)], 0, language="en")
    assert time.process_time() - started < 8  # about one second; by the square of its length more than fifteen


@pytest.mark.skipif(not (DATA / "xquad_en").is_dir(), reason=f"no human data in {DATA}: set RAGEVAL_DATA_DIR")
def test_most_real_paragraphs_get_a_question_and_names_and_years_are_told_apart() -> None:
    rows = [json.loads(line) for line in (DATA / "xquad_en" / "corpus.jsonl").read_text(encoding="utf-8").splitlines()]
    chunks = [Chunk(row["id"], f"{row['title']}\n{row['text']}", row["id"]) for row in rows]
    made = items(generate(chunks, 0))
    assert len(made) >= 0.75 * len(chunks)
    categories = Counter(item.category for item in made)
    assert set(categories) == {"factual_lookup", "entity_specific", "temporal"}
    assert all(len(item.document_ids) == 1 for item in made)
