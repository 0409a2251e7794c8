"""Questions by rule: readable, answered by a span of their chunk, self-contained, and total over any text."""

import json
import os
import time
from dataclasses import replace
from pathlib import Path

import handbook
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rageval_dagster.benchmark.by_rule.generator import generate
from rageval_dagster.benchmark.by_rule.prose import clean_heading, eligible, sentences, titles, without_number
from rageval_dagster.benchmark.by_rule.subjects import noun_phrases, subject
from rageval_dagster.benchmark.by_rule.terms import Surroundings, in_lower_case, terms
from rageval_dagster.benchmark.related import Related
from rageval_dagster.records import Candidate, Chunk, Item
from tests.language_samples import PARAGRAPHS

DATA = Path(os.environ.get("RAGEVAL_DATA_DIR", Path(__file__).parents[2] / "../shared/data"))


@pytest.mark.parametrize("seed", range(4))
def test_of_a_technical_handbook_only_whole_sentences_that_stand_in_one_document_are_asked_about(seed: int) -> None:
    chunks = handbook.chunks()
    candidates = generate(chunks, seed)
    made = items(candidates)
    # The other pages have no sentence that shows plainly what it is about.
    assert len({item.evidence[0].document_id for item in made}) >= 3
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
        "a",
        "The ferry leaves the harbour of Larvik at nine.\n\n"
        "Ann Lee was the designer of the ticket in a small workshop in Oslo. The house of Ann Lee stands nearby.",
        "ferries.md",
    )
    other = Chunk("b", "Good to know: the *ferry* leaves the\nharbour of Larvik at nine. Bring warm clothes.", "b.md")
    related = Related([page], corpus=lambda: [page, other])
    for seed in range(6):
        (item,) = items(generate([page], seed, {"ferries.md": 9}, facts=related.facts))
        assert "ferry" not in str(item.evidence[0].quote)
    assert Related([page]).facts.repeated == frozenset()


def test_chunks_without_a_document_repeat_nothing_since_a_quote_stands_for_all_that_hold_it() -> None:
    chunks = [Chunk(name, "The ferry leaves the harbour of Larvik at nine.", name) for name in ("a", "b")]
    assert Related(chunks).facts.repeated == frozenset()


def items(candidates: list[Candidate]) -> list[Item]:
    return [candidate.item for candidate in candidates if candidate.item is not None]


KEDGE = "The `kedge_tool` hands out berths to ships. Its berths are painted blue by the crew of the old harbour tower."
BRIDGE = (
    "London Bridge\nLondon Bridge is a bridge in Lake Havasu City, Arizona. It was dismantled in 1967 and relocated. "
    "The bridge was purchased by Robert McCulloch from the City of London."
)


def test_a_question_brings_answer_quote_and_category() -> None:
    chunks = [Chunk("a", BRIDGE, "guides/bridges.md", page=3), Chunk("b", "The bridge was painted by Ann Lee.", "x")]
    for seed in range(6):
        (item,) = items(generate(chunks, seed))[:1]
        (evidence,) = item.evidence
        assert (evidence.document_id, evidence.page) == ("guides/bridges.md", 3)
        assert evidence.quote is not None
        assert evidence.quote in BRIDGE
        assert item.answers[0] in evidence.quote
        assert item.origin == "extractive"
        assert item.category in {"entity_specific", "temporal", "factual_lookup"}


def test_another_seed_asks_other_questions_and_the_same_seed_the_same() -> None:
    chunks = [Chunk("a", f"{KEDGE} The `stow_tool` fills the holds of all ships with crates of apples.", "b")]
    asked = [items(generate(chunks, seed, {"b": 9}))[0].question for seed in range(12)]
    assert len(set(asked)) > 1
    assert asked == [items(generate(chunks, seed, {"b": 9}))[0].question for seed in range(12)]


def test_the_only_chunk_about_a_topic_is_asked_about_it_alone() -> None:
    (item,) = items(generate([Chunk("a", BRIDGE, "9fc13192e660")], 0))
    assert item.question == "What should I know about London Bridge?"
    assert item.answers == (
        "London Bridge is a bridge in Lake Havasu City, Arizona. It was dismantled in 1967 and relocated. "
        "The bridge was purchased by Robert McCulloch from the City of London.",
    )


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "too_little_prose"),
        ("| 1 | 2 |\n" * 40, "too_little_prose"),
        ("import os\n\ndef main(argument):\n    return os.path.join(argument, 'somewhere')\n", "too_little_prose"),
        ("BERTHS = 12  # The harbour has so many.\nCRANES = 3\n\nThe crane can be used by all.", "too_little_prose"),
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
    assert titles(text)[:1] == ([expected] if expected else [])


NOTES = [Chunk(f"note {n}", "All is well.", f"note {n}.md") for n in range(16)]
"""A corpus with them is one of articles."""


def questions(
    chunks: list[Chunk], corpus: list[Chunk] | None = None, language: str | None = None, size: int = 9
) -> set[str]:
    """What is asked about the chunks with several seeds, each of the corpus's documents having so many."""
    facts = Related(chunks, language, corpus=lambda: corpus or chunks).facts
    sizes = {chunk.document_id: size for chunk in chunks}
    return {item.question for seed in range(8) for item in items(generate(chunks, seed, sizes, language, facts))}


def test_a_passage_is_asked_about_under_the_title_of_its_document() -> None:
    opening = Chunk("a", "4. Harbour Rules — handbook 1.0\n\nNavigation\n\nindex", "hbr.html", position=0)
    passage = Chunk("b", KEDGE, "hbr.html", position=7)
    asked = questions([passage], [opening, passage])
    assert "What should I know about kedge_tool in the context of “Harbour Rules”?" in asked
    assert all("Harbour Rules" in each and "hbr" not in each for each in asked)


@pytest.mark.parametrize(
    ("name", "text", "topic"),
    [
        ("harbour_tool.md", f"{KEDGE} The harbour tool is free.", "harbour tool"),
        ("9fc13192e660", KEDGE, None),
        ("chapter-3.html", KEDGE, None),
        ("3.html", f"# Where do berths come from?\n\n{KEDGE}", None),
    ],
)
def test_the_topic_is_a_title_or_a_name_that_the_document_speaks_of(name: str, text: str, topic: str | None) -> None:
    asked = questions([Chunk("a", text, name, position=3)])
    expected = f" in the context of “{topic}”?" if topic else "?"
    assert f"What should I know about kedge_tool{expected}" in asked


FILING = """UNITED STATES SECURITIES AND EXCHANGE COMMISSION

English version

Operating income of {name} increased by 50 million or 17% because more ships than before left the harbour of {town}.

The {ship} Maid was sold to a company from {town} by the board of {name} within two years. The {ship} Maid is old."""


def test_what_every_document_begins_with_is_no_topic_and_a_name_that_one_is_full_of_is() -> None:
    names = [("Orvane", "Larvik"), ("Ellwick", "Moss"), ("Umbrel", "Bergen"), ("Quinzel", "Oslo"), ("Tarrow", "Hamar")]
    filings = [
        Chunk(f"{n}-{part}", FILING.format(name=f"{name} Shipping", town=town, ship=ship), f"{n}.html", None, part)
        for n, (name, town) in enumerate(names)
        for part, ship in enumerate((f"{name} Old", f"{name} New", f"{name} Red"))
    ]
    asked = questions([chunk for chunk in filings if chunk.position == 2], [*filings, *NOTES])
    assert asked
    assert not any("SECURITIES" in each or "English version" in each or "____" in each for each in asked)
    assert all(any(name in each for name, _ in names) for each in asked)


def test_a_page_header_is_neither_a_topic_nor_a_part_of_a_sentence() -> None:
    pages = [
        Chunk(
            f"{n}",
            f"Harbour Handbook, Release 12\nThe crane of dock {n} is kept by\nChapter 5. Docks {n}\nthe crew. "
            f"The `crane_{word}` tool lifts crates of ships that wait near the {word} dock of the harbour.",
            "book.pdf",
            page=n,
            position=n,
        )
        for n, word in enumerate(("amber", "birch", "cedar", "delta", "ember"), 1)
    ]
    made = items(generate([*pages, *NOTES], 0))
    assert len(made) == len(pages)
    for item in made:
        assert "Release" not in item.question
        assert item.answers[0].startswith("The `crane_")


def test_an_answer_says_more_than_its_question_and_of_an_article_no_more_than_a_sentence() -> None:
    text = (
        "Mars\n\nMars is a fascinating planet. The two moons of Mars were found by Asaph Hall in 1877. "
        "Asaph Hall worked in Washington."
    )
    (item,) = items(generate([Chunk("a", text, "mars.md", position=0)], 0))
    assert item.answers == ("The two moons of Mars were found by Asaph Hall in 1877.",)


def test_a_title_that_another_document_has_too_names_neither_alone() -> None:
    text = "# Harbour Rules\n\nIn the harbour rules the berth of {} was painted by the crew of the tower last year."
    north = Chunk(
        "a",
        text.format("the old ferry Orvane Maid") + " The Orvane Maid is the pride of all people of the old town.",
        "north.md",
        position=0,
    )
    south = Chunk("b", text.format("the new crane"), "south.md", position=0)
    asked = {
        items(generate([north], seed, {"north.md": 1}, facts=Related([north], corpus=lambda: [north, south]).facts))[
            0
        ].question
        for seed in range(6)
    }
    assert "What should I know about the Orvane Maid in the context of “Harbour Rules”?" in asked
    assert not any(each.startswith(("Who or what is", "What is")) for each in asked)


@pytest.mark.parametrize(
    ("heading", "told", "asked"),
    [
        (
            "Harbour Crane",
            "The harbour crane is what the whole crew of the old town lifts in summer.",
            "the Harbour Crane",
        ),
        ("Harbour Crane", "Harbour cranes are what the whole crew of the old town lifts in summer.", "Harbour Cranes"),
        (
            "Harbour Crane",
            "The harbour crane module is what the whole crew of the old town lifts in summer.",
            "Harbour Crane",
        ),
        (
            "Relative Harbour Entry",
            "Absolute harbour entry needs what the whole crew of the old town lifts in summer.",
            None,
        ),
    ],
)
def test_a_heading_is_asked_about_as_its_sentence_opens_with_it(heading: str, told: str, asked: str | None) -> None:
    chunk = Chunk("a", f"## {heading}\n\n{told} It is very old.", "7.html", position=3)
    found = questions([chunk])
    expected = {f"What should I know about {asked}?".casefold()} if asked else set()
    assert {each.casefold() for each in found} == expected


def test_a_section_that_begins_in_a_passage_is_asked_about_by_its_heading() -> None:
    text = (
        "## Tanks of a ship\n\nThe tanks of a ship are filled by the crew of the town before it sails for the "
        "islands. The pumps are strong."
    )
    chunk = Chunk("a", text, "north_harbour.md", position=3)
    opening = Chunk("o", "# North Harbour\n\nThe north harbour is large.", "north_harbour.md", position=0)
    asked = questions([chunk], [chunk, opening])
    assert "What should I know about the tanks of a ship in the context of “North Harbour”?" in asked
    south = Chunk("b", text.replace("The tanks of", "All tanks of"), "south.md", position=3)
    assert not any("tanks of a ship" in each for each in questions([chunk], [chunk, opening, south]))


MANUAL = """wal_age (integer)

Forces the server to switch to a new segment file after so many seconds.

-e
--echo-all

Copies all commands that are sent to the server to standard output.

class shop.Order(customer, lines)¶

Holds what a customer wants to have from the shop, and on which day.

- `fast_copy`: Copies whole blocks of a file without a look at what is in them.

size

4096

Another sentence about something that is said of nothing in this list."""


def test_what_a_list_or_a_reference_defines_is_asked_about_and_answered_by_its_first_sentence() -> None:
    parts = MANUAL.split("\n\n")
    chunks = [Chunk(f"{n}", "\n\n".join(parts[n : n + 2]), "manual.html", None, n + 1) for n in (0, 2, 4)]
    opening = Chunk("o", "Server Manual — handbook 1.0\n\nThe server is large.", "manual.html", position=0)
    chunks += [Chunk(f"{n}", "\n\n".join(parts[n:end]), "manual.html", None, n + 1) for n, end in ((6, 7), (7, 10))]
    asked = {item.question: item.answers[0].split()[0] for item in items(generate([*chunks, opening], 0))}
    assert asked == {
        "What should I know about wal_age in the context of “Server Manual”?": "Forces",
        "Server Manual --echo-all": "Copies",
        "Server Manual shop.Order": "Holds",
        "What should I know about fast_copy in the context of “Server Manual”?": "Copies",
    }


@pytest.mark.parametrize(
    ("heading", "name"),
    [
        ("Function: total_price (order, day) ¶", "total_price"),
        ("Function: total (order, day) ¶", "total()"),
        ("Option variable: show_price ¶", "show_price"),
        ("MaxPrice: positive scalar", "MaxPrice"),
        ('shop.ExportToFile("/tmp/all.svg")', None),
    ],
)
def test_a_signature_is_asked_about_by_its_name_and_a_call_is_none(heading: str, name: str | None) -> None:
    text = f"{heading}\n\nGives what a customer has to pay in the end, with all taxes of the land."
    opening = Chunk("o", "Shop Manual — handbook 1.0\n\nThe shop is large.", "manual.html", position=0)
    asked = questions([opening, Chunk("a", text, "manual.html", position=1)])
    forms = {f"What should I know about {name} in the context of “Shop Manual”?", f"Shop Manual {name}"}
    assert asked <= forms if name else not asked
    assert bool(asked) == bool(name)


@pytest.mark.parametrize("between", ["\n\n", "\n"])
def test_what_follows_a_list_of_names_is_not_said_of_the_last_one(between: str) -> None:
    named = between.join(["STATE_NONE", "STATE_READ (reading)", "STATE_WRITE"])
    text = f"{named}\n\nIf the name of the shop is not valid, then a negative number is given to the customer."
    opening = Chunk("o", "Shop Manual — handbook 1.0\n\nThe shop is large.", "manual.html", position=0)
    assert questions([opening, Chunk("a", text, "manual.html", position=1)]) == set()


def test_what_follows_a_heading_of_many_pages_is_not_said_of_the_option_before_it() -> None:
    told = "Changes the place of the shop on the map of the {} town and tells the customer of it."
    chunks = [
        Chunk(f"{n}", f"{town}_order\n\nDescription\n\n{told.format(town)}", f"{town}.html", position=4)
        for n, town in enumerate(["north", "south", "west", "east"])
    ]
    assert not any("_order" in each for each in questions(chunks))


@pytest.mark.parametrize("heading", ["my_order", "MyOrder", "PostgreSQL", "A directory name or path name"])
def test_placeholders_and_labels_are_no_headings_to_ask_about(heading: str) -> None:
    told = "If the folder name of path name contains a trailing separator, all the contents of it will be displayed."
    assert questions([Chunk("a", f"{heading}\n\n{told} The shop is open.", "7.html", position=4)]) == set()


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("Shop.prices", "A shop without a list would not be of much use to a customer of the town."),
        ("Order.total_sum", "The argument is either a number or a list of numbers of the customer."),
    ],
)
def test_a_sentence_that_leads_up_to_what_is_said_of_a_name_is_no_answer(name: str, told: str) -> None:
    opening = Chunk("o", "Shop Manual — handbook 1.0\n\nThe shop is large.", "manual.html", position=0)
    page = "{}\n\n{} What is done with it, the crew of the ship knows well."
    passage = Chunk("a", page.format(f"method {name}()¶", told), "manual.html", position=1)
    assert not any(f"about {name}" in each for each in questions([opening, passage]))
    told = f"Returns what {told[0].lower()}{told[1:]}"
    passage = Chunk("a", page.format(f"method {name}()¶", told), "manual.html", position=1)
    assert f"What should I know about {name} in the context of “Shop Manual”?" in questions([opening, passage])


@pytest.mark.parametrize(
    ("other", "is_asked"), [("north_order", False), ("Town.north_order", False), ("Town.south_order", True)]
)
def test_a_name_that_a_page_defines_twice_or_that_another_ends_with_is_not_asked_about(
    other: str, is_asked: bool
) -> None:
    told = "method {}()¶\n\nChanges the place of {} on the map of the town and tells the customer of it."
    opening = Chunk("o", "Shop Manual — handbook 1.0\n\nThe shop is large.", "manual.html", position=0)
    pages = [
        Chunk(f"{n}", told.format(name, what), "manual.html", position=n)
        for n, (name, what) in enumerate([("north_order", "the shop"), (other, "the ferry")], 1)
    ]
    asked = "What should I know about north_order in the context of “Shop Manual”?"
    assert (asked in questions([opening, *pages])) == is_asked
    # Chunks that overlap are one place.
    assert asked in questions([opening, pages[0], replace(pages[0], id="2", text=f"{pages[0].text} Done.")])


def test_what_a_page_says_of_several_things_is_asked_of_none() -> None:
    told = "{}\n\nReturns the seconds for which the server sleeps where too many files are open."
    opening = Chunk("o", "Shop Manual — handbook 1.0\n\nThe shop is large.", "manual.html", position=0)
    between = Chunk("b", "The harbour is open to all ships of the town in summer.", "manual.html", position=2)
    pages = [
        Chunk(name, told.format(name), "manual.html", position=position)
        for name, position in (("accept_sleep", 1), ("accept_wait", 3))
    ]
    assert any("accept_sleep" in each for each in questions([opening, pages[0], between]))
    assert not any("accept_" in each for each in questions([opening, pages[0], between, pages[1]]))


def test_an_option_with_its_short_form_behind_it_is_the_option() -> None:
    text = "--fast-copy, -f\n\nCopies whole blocks of a file without a look at what is in them."
    opening = Chunk("o", "Disk Copier\n\nThe copier is large.", "7.html", position=0)
    asked = questions([opening, Chunk("a", text, "7.html", position=4)])
    assert asked == {"What should I know about --fast-copy in the context of “Disk Copier”?", "Disk Copier --fast-copy"}


def test_a_heading_that_asks_is_asked_and_answered_by_what_follows_it() -> None:
    text = (
        "### Why is the crane red?\n\nThe crane is seen from ships far away so. It was grey.\n\n### And?\n\nIt is so."
    )
    found = {item.question: item.answers[0] for item in items(generate([Chunk("a", text, "faq.md")], 0))}
    assert found == {"Why is the crane red?": "The crane is seen from ships far away so. It was grey."}
    again = Chunk("b", text.replace("seen from ships far away", "red for the ships"), "other.md")
    assert not any(each.endswith("red?") for each in questions([Chunk("a", text, "faq.md"), again]))


def test_a_title_that_opens_with_a_function_word_is_a_topic_where_it_says_more() -> None:
    told = "The ballast tank of a ferry holds sea water on a rough day. The ballast tank is pumped out in the harbour."
    assert "What should I know about the ballast tank in the context of “How to load ferries”?" in questions(
        [Chunk("a", f"# How to load ferries\n\n{told}", "load.md", position=0)], size=2
    )


def test_an_option_is_not_asked_about_where_no_program_is_known() -> None:
    text = "--fast-copy\n\nCopies whole blocks of a file without a look at what is in them."
    assert questions([Chunk("a", text, "7.html", position=4)]) == set()
    opening = Chunk("o", "Disk Copier\n\nThe copier is large.", "7.html", position=0)
    asked = questions([opening, Chunk("a", text, "7.html", position=4)])
    assert asked == {"What should I know about --fast-copy in the context of “Disk Copier”?", "Disk Copier --fast-copy"}


def test_the_name_of_a_manual_behind_the_titles_of_its_pages_is_no_part_of_them() -> None:
    told = "The {} is what the crew of the harbour lifts in summer, and it is old."
    pages = [
        Chunk(
            f"{n}", f"{name.title()} Deck (Ship (release 7.3.0))\n\n{told.format(name + ' deck')}", f"{n}", position=0
        )
        for n, name in enumerate(["upper", "lower", "middle", "sun"])
    ]
    assert "What should I know about the Upper Deck?" in questions(pages)


def test_what_three_chunks_of_the_corpus_hold_tells_none_of_them_however_they_come_in_batches() -> None:
    corpus = [
        Chunk(str(n), f"The `retry_count` may in no case be read by {name} that go out to the sea.", f"{n}")
        for n, name in enumerate(("ferries", "moorings", "barges"))
    ]
    assert any("retry_count" in each for each in questions(corpus[:1]))
    assert not any("about retry_count?" in each for each in questions(corpus[:1], corpus))
    sizes = {chunk.document_id: 9 for chunk in corpus}
    facts = Related(corpus[:1], corpus=lambda: corpus).facts
    assert items(generate(corpus[:1], 0, sizes, facts=facts)) == items(generate(corpus, 0, sizes))[:1]


@pytest.mark.parametrize(
    ("sentence", "named"),
    [
        ("It helps that `retry_count` is given, and that services exist.", {"identifier": ["retry_count"]}),
        ("Run git-add--all.perl or the fetchAll method in it.", {"identifier": ["git-add--all.perl", "fetchAll"]}),
        ("Write foo_bar or example.child into the file.", {}),
        ("In Larvik, a crew may go with the Old Ferry, run by Ann Lee's father.", {"name": ["Old Ferry", "Ann Lee"]}),
        ("Sometimes Napoleon went there by ship.", {}),
        ("Philip II of Spain saw \"The Golden Hind\" there.", {"name": ["Philip II of Spain", "The Golden Hind"]}),
        ("The 2000 files were read in 1817, and by 1995.", {"year": ["1817", "1995"]}),
        ("The town has the Mersenne numbers of October 23 and the St. Bernadette.", {}),
    ],
)  # fmt: skip
def test_what_a_sentence_names(sentence: str, named: dict[str, list[str]]) -> None:
    around = Surroundings(sentence, "en", in_lower_case={"sometimes", "write", "run"})
    found = terms(sentence, around)
    assert {kind: [term.text for term in found if term.kind == kind] for kind in {term.kind for term in found}} == named


def test_a_name_of_one_word_is_a_term_where_the_passage_says_it_again() -> None:
    sentence = "In the end the crew of the ship saw Larvik, and went home."
    for passage, expected in ((sentence, []), (f"Larvik is a town. {sentence}", ["Larvik"])):
        found = terms(sentence, Surroundings(passage, "en"))
        assert [term.text for term in found if term.kind == "name"] == expected


@pytest.mark.parametrize(
    ("language", "text", "expected"),
    [
        ("de", "Der Hafen von Larvik hat einen Kran. Das Schiff „Alte Fähre“ bringt den Kran im Sommer nach Oslo. "
         "Die „Alte Fähre“ gehört der Stadt Larvik und ist schon alt.",
         "Was sollte ich über die Alte Fähre wissen?"),
        ("fr", "Le port de Larvik a une grue. Le bateau « Vieux Bac » porte la grue à Oslo avec des amis. "
         "Le « Vieux Bac » est lent dans le port de la ville.",
         "Que faut-il savoir sur le Vieux Bac ?"),
        ("zh", "港口的起重机很大。在拉尔维克港口，起重机由《老渡轮》公司的船员每年夏天运往奥斯陆。"
         "《老渡轮》是拉尔维克的一艘很旧很慢的木船。",
         "关于老渡轮，应该了解什么？"),
    ],
)  # fmt: skip
def test_languages_have_fixed_sentences_of_their_own(language: str, text: str, expected: str) -> None:
    assert expected in questions([Chunk("a", text, "1")], language=language, size=2)


@pytest.mark.parametrize(
    ("language", "title", "text", "expected"),
    [
        ("sv", "Larviks hamn", "Lyftkranen flyttas varje sommar till Oslo med båt. Lyftkranen ägs av staden Larvik.",
         {"Larviks hamn Lyftkranen"}),
        ("zh", "拉尔维克港口", "起重机由船员每年夏天运往奥斯陆。起重机是港口的财产，老渡轮归城市所有。",
         {"就“拉尔维克港口”而言，关于起重机应该了解什么？", "拉尔维克港口 起重机"}),
    ],
)  # fmt: skip
def test_a_sentence_is_asked_about_by_its_subject_where_no_fixed_sentence_is_known_as_a_search_query(
    language: str, title: str, text: str, expected: set[str]
) -> None:
    assert questions([Chunk("a", text, "1", title=title)], language=language) & expected


@pytest.mark.parametrize(
    ("sentence", "expected"),
    [
        ("The window frame is a set of rows around the current one.", "window frame"),
        ("The `berth_list` option names the berths of the harbour.", "berth_list"),
        ("PQfreeCancel frees what was made before by PQgetCancel.", "PQfreeCancel"),
        ("Ann Lee was the second keeper of the lighthouse of Larvik.", "Ann Lee"),
        ("GeoDjango currently does not support elements of many letters.", "GeoDjango"),
        ("The build server creates several sets of files for the ferry.", "build server"),
        ("Old Ferry and New Ferry are the ships that the town has.", None),
        ("The format of the list is told by the crew of the harbour.", None),
        ("Select the table or the query that the field belongs to.", None),
        ("In the end the crew of the ship saw Larvik, and went home.", None),
        ("Specifically Larvik can hold ships of many kinds.", None),
    ],
)
def test_what_a_sentence_says_something_of(sentence: str, expected: str | None) -> None:
    around = Surroundings(f"{sentence} A window frame has an end.", "en", in_lower_case={"select", "the", "in"})
    found = subject(sentence, terms(sentence, around), around)
    assert (found.text if found else None) == expected


@pytest.mark.parametrize(
    ("phrase", "text", "language", "names", "expected"),
    [
        ("Window frames", "In the house all window frames are old.", "en", (), "window frames"),
        ("Window frames", "The window of the house has frames, and no window framesets.", "en", (), "Window frames"),
        ("Harbor Software", "We ask harbor Software for the keys.", "en", ("Harbor Software",), "Harbor Software"),
        ("Urlaub beantragen", "Wer urlaub beantragen will, sagt, wann der Urlaub ist.", "de", (), "Urlaub beantragen"),
        ("Urlaub planen", "Den Jahresurlaub planen alle im Januar.", "de", (), "Urlaub planen"),
        ("Neue Regeln", "Im Hafen gelten neue Regeln für alle.", "de", (), "neue Regeln"),
    ],
)  # fmt: skip
def test_an_opening_word_is_in_lower_case_where_the_passage_has_the_very_phrase_so(
    phrase: str, text: str, language: str, names: tuple[str, ...], expected: str
) -> None:
    assert in_lower_case(phrase, text, language, names) == expected


def test_a_file_s_name_is_written_as_its_passage_writes_it() -> None:
    text = (
        "Wer krank ist, meldet das am Morgen. Der Antrag auf Urlaub geht im Portal an die Leitung der Abteilung. Der "
        "Urlaub beginnt am Montag, und die Leitung der Abteilung prüft den Antrag in zwei Tagen."
    )
    asked = questions([Chunk("a", text, "urlaub.md", position=3)], language="de", size=2)
    assert any("Urlaub" in each for each in asked)
    assert not any("urlaub" in each for each in asked)


@pytest.mark.parametrize(
    ("sentence", "language", "others", "expected"),
    [
        ("Harbor Software requires two keys.", "en", "Harbor Software requires a phone.", "Harbor Software"),
        ("Window frames are painted by the crew.", "en", "All window frames are old.", "window frames"),
        ("Window frames are painted by the crew.", "en", "Window frames are old.", "Window frames"),
    ],
)
def test_a_subject_keeps_its_capital_unless_its_passage_has_it_in_lower_case(
    sentence: str, language: str, others: str, expected: str
) -> None:
    around = Surroundings(f"{sentence} {others}", language, in_lower_case={"harbor", "window"})
    found = subject(sentence, terms(sentence, around), around)
    assert (found.text if found else None) == expected


@pytest.mark.parametrize(
    ("language", "text", "number"),
    [
        ("en", "Berths\nThe berths of the harbour are painted blue by the crew of the tower each summer.", 0),
        ("de", "Der Server steht im Keller und\nüberwacht die Anlage, die in dem Haus ist.", 1),
        ("ru", "Сервер хранит все файлы\nи каталоги пользователей в одной базе данных на диске.", 1),
        (
            "zh",
            "阿里云服务器是一种弹性计算服务，用户可以按照自己的需\n要扩展内存和磁盘的大小，而且不需要购买任何的硬件。",
            1,
        ),
    ],
)
def test_a_heading_that_stands_glued_to_a_sentence_is_told_from_a_short_line(
    language: str, text: str, number: int
) -> None:
    found = sentences(text, language)
    assert len(found) == number or found[0].heading == "Berths"


@pytest.mark.parametrize(("between", "is_asked"), [("\n\n", True), (" ", False)])
def test_a_noun_is_asked_about_where_it_opens_a_paragraph(between: str, is_asked: bool) -> None:
    told = "The berth list is a sheet of paper that the crew keeps. The berth list hangs by the door."
    text = f"All ships pass the long pier of the town.{between}{told}"
    asked = questions([Chunk("a", text, "1", position=0, title="Harbour Rules")])
    assert ("What should I know about the berth list in the context of “Harbour Rules”?" in asked) == is_asked


def test_a_noun_that_a_passage_says_but_once_is_not_asked_about_in_a_sentence() -> None:
    once = "The copper kettle is heated by the cook of the ferry each morning before the crew wakes up."
    for text, number in ((once, 0), (f"{once} A copper kettle has two handles.", 1)):
        made = items(generate([Chunk("a", text, "1", title="Ferry Galley")], 0, {"1": 9}))
        assert sum(item.question.startswith("What should I know about") for item in made) == number


def test_a_sentence_without_a_plain_subject_is_looked_for_by_what_it_names() -> None:
    text = "Early in the morning the water of the kettle is heated by Ann Lee to 90 degrees for the sailors."
    (item,) = items(generate([Chunk("a", text, "1", title="Ferry Galley")], 0))
    assert item.question == "Ferry Galley Ann Lee"
    assert item.answers == (text,)
    assert item.category == "entity_specific"


@pytest.mark.parametrize(
    ("language", "sentence", "expected"),
    [
        ("en", "The crew is painting a wooden hull in the course of a summer.", ["crew", "wooden hull", "summer"]),
        ("en", "The fact that the average grows to 9 inches is told to the crew.", ["crew"]),
        ("en", "Under the old stone bridge near Larvik the boat of three tons may pass.",
         ["old stone bridge", "three tons"]),
        ("fr", "Le bateau est dans un port fluvial, avec le canot de sauvetage.",
         ["bateau", "port fluvial", "sauvetage"]),
        ("de", "Im Laufe der Woche streicht Ann den Rumpf.", ["Woche", "streicht", "Rumpf"]),
    ],
)  # fmt: skip
def test_noun_phrases_are_found_between_articles_or_prepositions_and_what_follows(
    language: str, sentence: str, expected: list[str]
) -> None:
    assert [term.text for term in noun_phrases(sentence, language)] == expected


def test_a_title_may_follow_a_line_that_many_pages_begin_with_and_precede_a_list_of_contents() -> None:
    told = "The {0} tank holds {1} for the way home in winter.\n\nThe {0} tank is pumped out by the {1} crew and us."
    contents = "".join(f"\n\n2.{n}. Part {n}" for n in range(9))
    pages = [
        chunk
        for n, (name, held) in enumerate(
            {"ferry": "ballast", "tug": "petrol", "barge": "gravel", "yacht": "lemonade"}.items()
        )
        for chunk in (
            Chunk(f"{n}a", "Handbook of Ships", f"{n}.html", position=0),
            Chunk(f"{n}b", f"# {n}. Loading the {name} well{contents}", f"{n}.html", position=1),
            Chunk(f"{n}c", told.format(held, name), f"{n}.html", position=2),
        )
    ]
    assert any("“Loading the tug well”" in each for each in questions([*pages, *NOTES]))


def test_of_what_sentences_name_by_the_way_only_articles_are_asked_about() -> None:
    told = "The ballast tank of a ferry holds sea water on a rough day. The ballast tank is pumped out in the harbour."
    named = Chunk("n", f"# How to load ferries\n\n{told}", "load.md", position=0)
    manual = [Chunk(f"m{n}", f"The crane number {n} is old.", "manual.md", position=n) for n in range(4)]
    assert questions([named], size=2)
    assert questions([named], [named, *manual], size=2) == set()
    assert questions([named], [named, *manual, *NOTES], size=2)


def test_a_list_of_contents_gives_no_title() -> None:
    contents = ["Scheme", "Local Prefix", "Is Local", "Parse Address", "Object", "As String"]
    text = "This class should rarely be used directly by anybody."
    assert titles("\n\n".join(["Attribute Links", "Uses", text])) == ["Attribute Links", "Uses"]
    assert titles("\n\n".join([*contents, text])) == []


@pytest.mark.parametrize(
    ("heading", "expected"),
    [
        ("Teil I. Erste Schritte", "Erste Schritte"),
        ("第3章 勘定科目", "勘定科目"),
        ("C.11. 10. FUTURE REVISIONS", "FUTURE REVISIONS"),
        ("3.1 Über uns", "Über uns"),
        ("Windows 10", "Windows 10"),
    ],
)
def test_the_number_of_a_section_is_no_part_of_its_heading(heading: str, expected: str) -> None:
    assert without_number(heading) == expected


@pytest.mark.parametrize(
    "sentence",
    [
        'The captain said that "the ferry to Oslo was never late in all of its years.',
        "The captain of the ferry said that the crew . . . was never late in its years.",
        "The captain of the ferry said “the crew was never late in all of its years.",
    ],
)
def test_what_is_left_open_or_left_out_is_no_sentence(sentence: str) -> None:
    assert sentences(sentence, "en") == []


def test_the_number_of_a_footnote_makes_no_identifier() -> None:
    around = Surroundings("", "en", in_lower_case={"use"})
    sentence = "Compilers warn about its use98, about Protanopia9 and about utf8 alike."
    assert [term.text for term in terms(sentence, around)] == ["utf8"]


@pytest.mark.parametrize(
    ("language", "sentence", "names"),
    [
        ("en", "They were not certified as it was set by No Child Left Behind in those days.", []),
        ("en", "They were all certified by the White Child Office in those days.", ["White Child Office"]),
        ("en", "In May it was told by the Ministry of Gender and Child Affairs.", []),
        ("en", "They wrote to the Council on Advanced Studies in the Social Sciences.", []),
        ("en", "Every man is judged under the Mental Health (Care) rules of the town.", []),
        ("en", "It was told by Ann Lee and Max Weber.", ["Ann Lee", "Max Weber"]),
        ("de", "Im Mai traf die Lage der Stadt den alten Peyton Manning sehr.", ["Peyton Manning"]),
    ],
)
def test_a_name_is_whole(language: str, sentence: str, names: list[str]) -> None:
    spoken = ("gender", "child", "council", "studies", "social", "care")
    assert [term.text for term in terms(sentence, Surroundings(sentence, language, spoken))] == names


def test_measures_and_ordinals_are_no_identifiers() -> None:
    sentence = "In the mid-18th century a 64-by-1 row had 1e-6 of what utf-8 and COVID-19 have."
    assert [term.text for term in terms(sentence, Surroundings(sentence, "en"))] == ["utf-8", "COVID-19"]


def test_a_long_document_is_not_searched_for_by_what_it_names_by_the_way() -> None:
    told = "In winter the sailors of the harbour sang with Ann Lee on the ferries, without any light in their cabins."
    for size, number in ((2, 1), (90, 0)):
        assert len(items(generate([Chunk("a", told, "1", title="Harbour Guide")], 0, {"1": size}))) == number


@pytest.mark.parametrize(
    "sentence",
    [
        "By all accounts the winter of the year was, in the end, a great deal of worry for every old sailor there.",
        "In the summer of 1967 there was, for a while, no better wood in any part of what had been a busy town.",
    ],
)
def test_words_and_years_by_the_way_make_no_query(sentence: str) -> None:
    assert items(generate([Chunk("a", sentence, "1", title="Ferry Galley")], 0)) == []


def test_a_name_with_its_year_is_put_as_a_search_query_where_its_passage_goes_on_to_tell_of_it() -> None:
    for again, asked in (
        ("It was said that the kettle is old.", ["Ferry Galley Ann Lee"]),
        ("It was said that Lee was old.", ["Ferry Galley 1908 Ann Lee"]),
    ):
        text = f"In the spring of 1908 the cooks with Ann Lee looked at the kettle before the long way home. {again}"
        assert [item.question for item in items(generate([Chunk("a", text, "1", title="Ferry Galley")], 0))] == asked


@pytest.mark.parametrize(
    "named",
    [
        "the T. T. Lee Gallery",
        "the 25th Larvik Brigade",
        "the Larvik Hot 100",
        "the Koh - i - Noor Boat",
        "the 2014 Annual Social and Economic Supplement",
        "the Ann Lee bridge",
    ],
)
def test_nothing_is_asked_about_a_part_of_a_name(named: str) -> None:
    told = f"In spring the crews of the harbour were told of {named}, which the people of the old town looked at."
    beside = "A social and economic evening, and over the bridge. The bridge is closed in a winter of much ice."
    chunks = [Chunk("a", told, "1", title="Harbour Rules"), Chunk("b", beside, "2", title="Old Town")]
    assert not [item for item in items(generate(chunks, 0)) if item.answers == (told,)]


def test_of_a_name_with_words_before_it_the_name_is_asked_about() -> None:
    told = "The old ferry director Ann Lee is the first to see the ice on the water of the harbour."
    (item,) = items(generate([Chunk("a", told, "1", title="Harbour Rules")], 0))
    assert item.question == "What should I know about Ann Lee in the context of “Harbour Rules”?"


@pytest.mark.parametrize(
    ("sentence", "is_asked"),
    [
        ("Orvane is visited by a man from the old town, who warns her of the ice in the harbour.", False),
        ("Orvane is a ferry of the old town, which takes the crews over the ice in the harbour.", True),
        ("Orvane helps Larvik with the repairs of the old town, which are done before the ice comes.", False),
    ],
)
def test_a_bare_name_is_asked_about_where_its_sentence_says_what_it_is(sentence: str, is_asked: bool) -> None:
    chunk = Chunk("a", f"{sentence} In the evening Orvane comes back.", "1", title="Harbour Rules")
    asked = [item.question for item in items(generate([chunk], 0)) if item.answers == (sentence,)]
    assert asked == ["What should I know about Orvane in the context of “Harbour Rules”?"] * is_asked


def test_a_name_that_many_passages_have_is_no_query() -> None:
    told = "In spring the crews of the {} were told of Lake Larvik, which people of the old town go to see by night."
    chunks = [
        Chunk(str(number), told.format(thing), str(number), title=f"{thing.title()} Rules")
        for number, thing in enumerate(["harbour", "tower", "bridge", "market", "castle"])
    ]
    assert not [item for item in items(generate(chunks, 0)) if "Larvik" in item.question]


def test_a_title_of_one_word_is_the_topic_where_its_only_passage_says_it() -> None:
    text = "In spring the Celts of the north were met by Ann Lee, who wrote down what was told at every fire."
    (item,) = items(generate([Chunk("1", f"Celts\n{text}", "1")], 0))
    assert item.question == "Celts Ann Lee"


def test_the_underscores_of_a_page_s_name_are_no_part_of_a_topic() -> None:
    text = "In spring the rules of the harbour were told to us by Ann Lee, who wrote them down at every old fire."
    (item,) = items(generate([Chunk("a", text, "1", title="Harbour_Rules")], 0))
    assert item.question == "Harbour Rules Ann Lee"


def test_the_bare_number_of_a_chapter_is_no_part_of_a_topic_unless_its_passage_says_it() -> None:
    for title, said, topic in (
        ("7 Harbour Rules", "rule", "Harbour Rules"),
        ("12 Angry Men", "12 angry men", "12 Angry Men"),
    ):
        text = f"In spring the {said} of the harbour was told to us by Ann Lee, who wrote it down at every old fire."
        (item,) = items(generate([Chunk("a", text, "1", title=title)], 0))
        assert item.question == f"{topic} Ann Lee"


def test_no_query_is_made_of_names_that_other_documents_have_too() -> None:
    def chunk(number: int, text: str) -> Chunk:
        return Chunk(str(number), text, str(number), title=f"Harbour number {number}")

    named = "In those days nobody there would have gone from Larvik Harbour to Oslo Harbour without being rowed."
    others = [chunk(number, f"Everyone in Larvik Harbour and Oslo Harbour waits {number} days.") for number in (2, 3)]
    assert items(generate([chunk(1, named), *others], 0))[:1] == []


def test_a_name_that_a_short_document_without_a_title_says_but_once_is_not_asked_about() -> None:
    once = "Ann Lee was the second keeper of the lighthouse, and the ferry was painted by the crew of the tower."
    for title, number in ((None, 0), ("Larvik Lighthouse", 1)):
        assert len(items(generate([Chunk("a", once, "1", title=title)], 0))) == number


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
def test_two_of_five_real_paragraphs_get_a_question_and_names_and_years_are_told_apart() -> None:
    rows = [json.loads(line) for line in (DATA / "xquad_en" / "corpus.jsonl").read_text(encoding="utf-8").splitlines()]
    chunks = [Chunk(row["id"], f"{row['title']}\n{row['text']}", row["id"]) for row in rows]
    made = items(generate(chunks, 0))
    assert len(made) >= 0.4 * len(chunks)
    assert {item.category for item in made} == {"factual_lookup", "entity_specific", "temporal"}
    assert all(len(item.document_ids) == 1 for item in made)


@pytest.mark.skipif(not (DATA / "xquad_squad").is_dir(), reason=f"no human data in {DATA}: set RAGEVAL_DATA_DIR")
@pytest.mark.parametrize("language", ["de", "zh"])
def test_two_of_five_paragraphs_in_other_languages_get_a_question_without_a_title(language: str) -> None:
    path = DATA / "xquad_squad" / f"xquad.{language}.json"
    articles = json.loads(path.read_text(encoding="utf-8"))["data"]
    texts = [each["context"] for article in articles for each in article["paragraphs"]]
    chunks = [Chunk(str(number), text, str(number)) for number, text in enumerate(texts)]
    assert len(items(generate(chunks, 0))) >= 0.4 * len(chunks)


@pytest.mark.parametrize("size", [3, 100])
def test_a_title_that_tells_little_of_a_long_document_is_told_only_where_it_is_needed(size: int) -> None:
    opening = Chunk("o", "Shop Manual — handbook 1.0\n\nThe shop is large.", "book.pdf", 1, 0)
    passage = Chunk(
        "a",
        "north_order\n\nChanges the place of the order on the map of the town and tells the crew.",
        "book.pdf",
        2,
        1,
    )
    found = questions([opening, passage], size=size)
    context = "" if size == 100 else " in the context of “Shop Manual”"
    assert f"What should I know about north_order{context}?" in found
    elsewhere = replace(
        passage,
        id="e",
        document_id="other.pdf",
        text="north_order\n\nShows the colour of what a customer of the shop wants to buy today from the crew.",
    )
    found = questions([opening, passage, elsewhere], size=size)
    assert "What should I know about north_order in the context of “Shop Manual”?" in found
    assert "What should I know about north_order?" not in found


def test_what_another_page_is_about_is_not_asked_about_where_it_is_told_by_the_way() -> None:
    by_the_way = "stow_tool\n\nTakes the crates of the old ship by a setting of each crane only. It was not so before."
    own = "# Module stow_tool\n\nThe module fills the holds of a ship with crates. It is made for the old harbour."
    new = Chunk("a", f"# What is new\n\nAll is well in the town.\n\n{by_the_way}", "new.html", position=0)
    page = Chunk("b", own, "module.html", position=0)
    assert any("stow_tool" in each for each in questions([new]))
    assert not any("stow_tool" in each for each in questions([new], [new, page]) - questions([page], [new, page]))


def test_the_signature_that_follows_another_one_is_no_field_of_it() -> None:
    told = (
        "Creates a new list with the things of both lists of the shop in turn. It ignores what is left of the longer."
    )
    text = f"Function: fourth (shop) ¶\n\nFunction: join (one, other) ¶\n\n{told}\n\nAll is well in the old shop."
    assert not any("fourth" in each for each in questions([Chunk("a", text, "1", position=0, title="Shop Manual")]))


def test_where_a_passage_is_cut_behind_its_first_sentence_the_next_one_is_asked_about() -> None:
    first = "Stash file server\n\nA stash file lets the server of the town open its locked database alone."
    more = f"{first} The `stash` command writes it for a ship."
    cut = [Chunk("a", f"All is well here.\n\n{first}", "d", 1, 1), Chunk("b", f"{more}\n\nAll is well.", "d", 1, 2)]
    assert [candidate.status for candidate in generate(cut, 0)] == ["failed", "new"]


@pytest.mark.parametrize(
    ("heading", "asked"),
    [
        ("Laderaum der Fähre beladen", "Was sollte ich über „Laderaum der Fähre beladen“ wissen?"),
        ("Der Laderaum der Fähre", "Was sollte ich über den Laderaum der Fähre wissen?"),
        ("GRUNDLAGEN Der Laderaum der Fähre", "Was sollte ich über den Laderaum der Fähre wissen?"),
    ],
)
def test_a_heading_keeps_its_grammar_in_quotation_marks(heading: str, asked: str) -> None:
    told = "Der Laderaum der Fähre ist groß und fasst zwanzig schwere Lastwagen, die sie über den breiten Fjord trägt."
    text = f"{heading}\n\n{told} Im Winter beladen ihn die Leute nur am Morgen, weil das Eis dick ist."
    assert asked in questions([Chunk("a", text, "9fc13192e660", position=7)])


def test_about_half_of_the_headings_are_put_as_people_type_them() -> None:
    names = "anna berta carla dora emma frieda gerda hanna inga jutta klara lena".split()
    chunks = [Chunk("o", "Disk Copier\n\nThe copier is large.", "7.html", position=0)]
    for number, name in enumerate(names, 1):
        text = f"--copy-{name}\n\nCopies whole blocks of a file to the tower of {name} without a look at what it is."
        chunks.append(Chunk(name, text, "7.html", position=2 * number))
    asked = [item.question for item in items(generate(chunks, 0))]
    assert asked == [item.question for item in items(generate(chunks, 0))]
    typed = [each for each in asked if each.startswith("Disk Copier --copy-")]
    assert 3 <= len(typed) <= len(asked) - 3 == 9


def test_an_answer_goes_on_to_the_end_of_its_section() -> None:
    told = "A stash file lets the server of the town open its locked database alone. The `stash` command writes it."
    chunk = Chunk("a", f"Stash file server\n{told} Read once.\n\nIt is kept in the folder.", "book.pdf", 1, 9)

    def answer(text: str) -> str:
        (item,) = items(generate([replace(chunk, text=text)], 0))
        assert item.evidence[0].quote is not None
        assert item.evidence[0].quote in text
        return item.answers[0]

    whole = f"{told} Read once. It is kept in the folder."
    assert answer(chunk.text) == whole, "be it too short to be asked about"
    assert answer(chunk.text.replace("it. Read", "it.\nRead")) == whole
    assert answer(chunk.text.replace("It is kept", "## Folders\n\nIt is kept")) == f"{told} Read once."
    for torn in ("See `the", "https://example.com has more.", "(It is open."):
        assert answer(chunk.text.replace("Read once.", torn)) == told, torn
    long = told.replace(
        "writes it", "writes it, " + "and keeps it, by night or by day, in the folder, " * 12 + "until then"
    )
    assert answer(chunk.text.replace(told, long)) == long.partition(". ")[0] + "."


@pytest.mark.parametrize("steps", ["There are two ways.", "There are two ways:", "There are two ways.\n\nThese are:"])
def test_what_leads_up_to_a_list_is_told_with_it_or_not_asked_about(steps: str) -> None:
    told = "A lost stash file of the harbour is made anew by the server of the town. " + steps
    ways = ["- By night the crew of the ferry brings the file.", "- By day the old master of the tower writes it."]

    def answers(items_of_list: list[str], after: str) -> list[str]:
        text = f"# Lost stash files\n\n{told}\n\n" + "\n\n".join(items_of_list) + after
        return [item.answers[0] for item in items(generate([Chunk("a", text, "book.md", position=3)], 0))]

    whole = " ".join([*told.split(), *" ".join(ways).split()])
    assert answers(ways, "\n\n# Others\n\nMore of that.") == [whole]
    assert answers(ways, "") == [], "the next chunk may go on with it"
    assert answers([ways[0], "- By day the old master calls:"], "\n\n```\nstash\n```\n\nMore of that.") == []
    assert answers([*ways, *(f"- In the year {n} the town did so, too." for n in range(1900, 1920))], "\n\nSo.") == []


@pytest.mark.parametrize(
    "next_one", ["shutdown\n\nThe word that ends the server.", "- `stop_word`: The word that ends the server."]
)
def test_what_is_told_of_one_option_is_not_told_of_the_next(next_one: str) -> None:
    told = "The number that is added to each port of the server of the harbour, if it has one."
    opening = Chunk("o", "Ship Server\n\nThe server is large.", "ship.html", position=0)
    for text in (f"port_offset\n\n{told}\n\n{next_one}", f"- `port_offset`: {told}\n\n{next_one}"):
        made = items(generate([opening, Chunk("a", text, "ship.html", position=4)], 0))
        assert {item.answers for item in made if "port_offset" in item.question} == {(told,)}


def test_an_acronym_that_a_title_opens_with_is_a_part_of_it() -> None:
    told = "The `tide_wheel` is set by the crew of the ferry in summer, and shows ships the way at night."
    chunk = Chunk("a", f"# QRPK Bridges\n\n{told} It shines.", "6.html", position=0)
    assert {each.rpartition(" of ")[2] for each in questions([chunk], size=9)} == {"“QRPK Bridges”?"}


def test_marks_of_markup_are_no_part_of_a_heading() -> None:
    told = "The crane lamp is lit by the crew of the ferry in summer, and shows ships the way at night."
    for heading in ('## Crane Lamp <a id="crane-lamp"></a>', "## Crane Lamp <a id=lamp></a>", "## Crane Lamp {#lamp}"):
        chunk = Chunk("a", f"# Harbour\n\nIt is large.\n\n{heading}\n\n{told} It shines.", "harbour.md", position=0)
        asked = {"What should I know about the Crane Lamp in the context of “harbour”?", "harbour Crane Lamp"}
        assert questions([chunk], size=9) <= asked
    opening = Chunk("o", "Disk Copier\n\nThe copier is large.", "7.html", position=0)
    option = Chunk(
        "a", "--fast <lamp>\n\nCopies whole blocks of a file without a look at what is in it.", "7.html", position=4
    )
    asked = {"What should I know about --fast in the context of “Disk Copier”?", "Disk Copier --fast"}
    assert questions([opening, option]) <= asked


@pytest.mark.parametrize("standing", [True, False])
def test_what_a_list_defines_below_a_line_that_the_document_has_again_and_again_is_part_of_something_else(
    standing: bool,
) -> None:
    opening = Chunk("o", "Shop Manual — handbook 1.0\n\nThe shop is large.", "manual.html", position=0)
    page = "method {}_order()¶\n\nChanges the {} order.\n\nParameters{}:\n\n- `{}_depth` – {} that it reads."
    names = ["north", "south", "east", "west"]
    pages = [
        Chunk(
            n,
            page.format(
                n, n, "" if standing else f" of {n}", n, f"The number of the levels of the shop, as seen from the {n},"
            ),
            "manual.html",
            position=2 * place,
        )
        for place, n in enumerate(names, 1)
    ]
    found = questions([opening, *pages])
    assert any("south_depth" in each for each in found) != standing


def test_a_document_that_lists_what_changed_tells_nothing_of_what_it_names() -> None:
    told = "- `north_order`: The place of the order on the map is kept when the crew of the ship is away."
    for headings, is_asked in (
        (("## 1.0.6 (2009-06-30)", "## 1.0.5¶", "## Version 1.0.4"), False),
        (("## 1.0.6",), True),
    ):
        text = "\n\n".join(f"{heading}\n\nThe shop is large." for heading in headings)
        chunks = [
            Chunk("o", f"Shop Manual — handbook 1.0\n\n{text}", "news.html", position=0),
            Chunk("a", told, "news.html", position=1),
        ]
        assert any("north_order" in each for each in questions(chunks)) == is_asked


def test_documents_whose_titles_differ_in_a_version_list_what_changed() -> None:
    told = "- `north_order`: The place of the order on the map is kept when the crew of the ship is away."
    for versions, is_asked in (("1.7", "1.8", "1.9.1"), False), (("1.7", "1.8", "2.0"), False), (("1.7", "1.8"), True):
        notes = [
            Chunk(f"n{n}", "The shop is large.", f"{n}.md", position=0, title=f"Shop {n} release notes")
            for n in versions
        ]
        asked = questions([*notes, Chunk("a", told, f"{versions[0]}.md", position=1)])
        assert any("north_order" in each for each in asked) == is_asked


def test_a_word_that_other_documents_have_as_a_heading_is_no_documents_topic() -> None:
    told = "# Tanks\n\nTanks are boxes of steel that hold water for the ferries of the town.\n\nAll tanks are full."
    page = Chunk("a", told, "tanks.md", position=0)
    assert "What should I know about Tanks?" in questions([page])
    other = Chunk("b", "# Ferries\n\nAll is well.\n\n## Tanks\n\nThe tanks are many and hold what they hold.", "b.md")
    assert not any("Tanks?" in each for each in questions([page, other]))


def test_what_an_items_list_goes_on_with_is_no_part_of_its_answer() -> None:
    told = "- `north_order`: The place of the order is kept when the crew is away. It is kept for a year."
    for follows, is_more in (("- bracket: What is around it.", False), ("Those are all.", False), ("  - One.", True)):
        text = f"{told}\n\n{follows}\n\nThe map is old."
        [item] = items(generate([Chunk("a", text, "map.html", position=3)], 0))
        assert item.answers[0] == told.partition(": ")[2] + (" - One." if is_more else "")


def test_no_answer_ends_with_what_points_at_something_below() -> None:
    told = "By night the crew of the old ferry sees two lights that stand in the harbour. They burn until the morning."
    for more, is_told in (("The map shows it.", True), ("An example is below.", False)):
        text = f"# Harbour lights\n\n{told} {more}\n\n# Others\n\nMore."
        [item] = items(generate([Chunk("a", text, "book.md", position=3)], 0))
        assert item.answers[0] == (f"{told} {more}" if is_told else told)


def test_a_key_of_an_array_keeps_its_brackets() -> None:
    told = "The path to the file with the ssl key of the crew. Servers need it by night, when the harbour is dark."
    text = f"$cfg['Servers'][$i]['ssl_key']¶\n\n{told}"
    assert questions([Chunk("a", text, "config.html", position=3)]) == {
        "What should I know about $cfg['Servers'][$i]['ssl_key']?"
    }


def test_no_answer_goes_on_with_what_is_defined_beside_its_definition() -> None:
    told = "Reads the places of all ships from the map when the crew is away.\nIt is kept for a year in the old box."
    for beside in ("--south Don't read it here.", "SOUTH Used to keep the box.", "south_map If set, it is kept."):
        text = f"north_order\n\n{told}\n{beside}\n\nOthers\n\nMore."
        found = items(generate([Chunk("a", text, "map.html", position=3)], 0))
        assert [item.answers[0] for item in found] == [" ".join(told.split())]


def test_the_link_to_a_function_s_source_is_no_part_of_its_name() -> None:
    assert clean_heading("class shop.Order[source]¶") == "shop.Order"
    assert clean_heading("Orders [1]") == "Orders [1]"


def test_a_heading_that_goes_on_from_another_is_not_asked() -> None:
    text = "## …find the file of the harbour?\n\nThe file of the harbour is found beside the map, in the old box."
    assert questions([Chunk("a", text, "faq.md")]) == set()


def test_each_heading_of_a_passage_is_asked_about_up_to_three() -> None:
    told = "The place of the {0} on the map is kept when the crew of the {1} ship is away."
    defined = [
        f"- `{name}`: {told.format(name[6:], name[:5])}"
        for name in ("north_order", "south_depth", "upper_lights", "lower_cranes")
    ]
    for count, asked in ((1, 1), (2, 2), (4, 3)):
        chunk = Chunk("a", "\n\n".join(defined[:count]), "map.html", position=3)
        found = generate([chunk], 0)
        assert [candidate.attempt for candidate in found] == [*range(asked)], [each.reasons for each in found]
        assert len({item.evidence[0].quote for item in items(found)}) == asked


def test_a_short_document_is_asked_about_as_a_section_is_a_long_one_is_not() -> None:
    told = (
        "# Lifting of white cranes\n\nBy night the lifting of white cranes takes two tugs and a diver with steel rope. "
        "It ends in the morning."
    )
    pages = [
        Chunk("a", told, "cranes.md", position=0),
        *(Chunk(f"b{n}", f"## Part {n}\n\nMore.", "cranes.md", position=n) for n in (1, 2)),
    ]
    assert "What should I know about lifting of white cranes?" in questions(pages, size=8)
    assert questions(pages, size=9) == set()


def test_the_book_before_the_number_of_a_page_is_no_part_of_its_title() -> None:
    assert titles("Harbour Manual: 3.4.1 Lights of ferries\n\nMenu")[0] == "Lights of ferries"
    assert titles("Harbour Manual: lights of ferries\n\nMenu")[0] == "Harbour Manual: lights of ferries"


def test_the_number_before_a_heading_that_asks_is_no_part_of_the_question() -> None:
    for number in ("6 ", "- ", "12. ", "J.5.13 "):
        text = f"## {number}What did the white crane lift?\n\nThe white crane did lift crates of apples from ships."
        assert questions([Chunk("a", text, "faq.md")]) == {"What did the white crane lift?"}


def test_a_heading_that_asks_may_be_said_again_before_more_is_told_and_has_one_question_mark() -> None:
    said = "The white crane is lifted by night."
    text = f"## How is the white crane lifted by night??\n\n{said}{{}}"
    more = " Two tugs hold the ship while a diver looks for its ropes, which are old."
    [item] = items(generate([Chunk("a", text.format(more), "faq.md")], 0))
    assert (item.question, item.answers) == ("How is the white crane lifted by night?", (said + more,))
    assert questions([Chunk("a", text.format(""), "faq.md")]) == set()


def test_a_heading_that_asks_is_not_asked_where_what_follows_takes_long_to_come_to_its_point() -> None:
    text = "## Why did the white crane lift apples?\n\nThe crane is a machine that many towns have bought of late."
    assert not any(each.startswith("Why") for each in questions([Chunk("a", text, "faq.md")]))


@pytest.mark.parametrize(
    ("text", "heading"),
    [
        (
            "Type:\n\nChannelType\n\ndurable¶\n\nDurable exchanges remain active when the server is started again.",
            "durable",
        ),
        (
            f"class shop.Order({'customer=None, ' * 12})¶\n\nHolds what a customer has ordered in the shop.",
            "shop.Order",
        ),
    ],
)
def test_a_line_with_the_mark_of_a_link_is_a_heading_however_long(text: str, heading: str) -> None:
    assert [sentence.heading for sentence in sentences(text)] == [heading]


def test_what_is_indented_below_an_item_that_many_chunks_have_belongs_to_it() -> None:
    text = "shop_settings\n\nThis takes these keys:\n\n- database\n\n  The database that the shop connects to is kept."
    assert sentences(text, furniture={"- database"}) == []


def test_what_a_reference_tells_of_all_that_it_defines_does_not_hide_what_it_says_of_each() -> None:
    fields = "Grammar: a list of addresses\n\nBlocks: options, view, zone\n\nDefault value: all"
    text = f"allow-query-on¶\n\n{fields}\n\nSpecifies which local addresses are allowed to send queries to the server."
    assert [(each.heading, each.opens) for each in sentences(text)] == [("allow-query-on", True)]
    assert any("about allow-query-on" in each for each in questions([Chunk("a", text, "named.html", position=3)]))
    several = text.replace("Specifies which local addresses are", "The first and the second address are")
    assert not any("allow-query-on" in each for each in questions([Chunk("a", several, "named.html", position=3)]))


@pytest.mark.parametrize(("line", "is_heading"), [("max-cache-size", True), ("well-known: a ferry", False)])
def test_a_line_that_is_one_word_with_dashes_names_something(line: str, is_heading: bool) -> None:
    found = sentences(f"{line}\n\nThe most that the server keeps of what it was told before in its memory is set.")
    assert [each.heading for each in found] == [line if is_heading else None]


def test_a_name_that_a_heading_of_another_section_has_is_not_asked_about_in_a_list() -> None:
    listed = Chunk(
        "a", "query-errors\n\nInformation about queries that resulted in some failure of the server.", "n", None, 3
    )
    assert any("about query-errors?" in each for each in questions([listed]))
    told = (
        "## The query-errors Category\n\nThe query-errors category tells why a query ended in an error of the server."
    )
    section = Chunk("b", f"{told} It is logged.", "n", None, 9)
    assert not any("about query-errors?" in each for each in questions([listed, section]))


@pytest.mark.parametrize(
    ("before", "line", "is_heading"),
    [
        ("The best way to do this well, so that no harm is done, is usually to give the", "--oknodo", False),
        ("The best way to do this well, so that no harm is done, is usually to give it.", "--oknodo", True),
        ("Options", "--oknodo", True),
        ("The server needs each of these other packages:", "liblua5-dev [i386 amd64],", False),
    ],
)
def test_a_line_that_a_paragraph_of_a_pdf_ends_with_defines_nothing(before: str, line: str, is_heading: bool) -> None:
    told = "Be careful of what the scripts of the server do when they are started in the wrong order."
    found = [each.heading for each in sentences(f"{before}\n{line}\n{told}") if each.text == told]
    assert (found == ["--oknodo"]) == is_heading


def test_what_each_of_many_documents_says_of_itself_is_asked_of_none() -> None:
    told = "The `{0}` is a server side part of the large suite of tools for the harbours of the town."
    pages = [
        Chunk(name, f"{name}\n\n{told.format(name)}\n\n{name} is started by hand.", f"{name}.html", position=0)
        for name in ("kedge_tool", "stow_tool", "moor_tool")
    ]
    assert any("kedge" in each for each in questions(pages[:2]))
    assert questions(pages) == set()


def test_a_line_with_the_mark_of_a_link_that_many_chunks_have_ends_what_is_said_of_another() -> None:
    text = "ChannelType\n\ndurable¶\n\nDurable exchanges remain active when the server is started again."
    assert [each.heading for each in sentences(text, furniture={"durable¶"})] == [None]


@pytest.mark.parametrize(
    ("heading", "told", "alone", "with_more"),
    [
        ("Harbour lights", "By night the crew of the old ferry sees two lights that stand in the harbour.", True, True),
        ("Harbour lights", "By night the crew of the old ferry sees two lamps that stand in the harbour.", False, True),
        ("Harbour lights", "By night the crew of the old ferry sees two lamps that stand in the water.", False, False),
        (
            "The harbour lights",
            "By night the crew of the old ferry sees the harbour lights that stand there.",
            True,
            True,
        ),
        ("The harbour light", "By night the crew sees old harbour lights beside the light of the ferry.", False, False),
        (
            "Common uses of harbour lights",
            "By night the old crew of the ferry finds many common uses of the harbour lights.",
            True,
            True,
        ),
        ("The harbour server is not running", "The server of the harbour runs by night for the crew.", False, False),
        ("Harbour server cannot run", "The harbour server cannot run where the crew has the files.", False, False),
        ("Harbour file: %1", "The file of the harbour is opened by night for the crew of the ferry.", False, False),
        (
            "Harbour|Ferry file -r -w",
            "The harbour file of the ferry is read by night for the r of the w.",
            False,
            False,
        ),
    ],
)
def test_a_section_is_asked_about_where_its_answer_says_its_heading(
    heading: str, told: str, alone: bool, with_more: bool
) -> None:
    def is_asked(said: str) -> bool:
        return bool(questions([Chunk("a", f"# {heading}\n\n{said}\n\n# Others\n\nMore.", "book.md", position=3)]))

    assert is_asked(told) == alone
    assert is_asked(f"{told} The crew has seen it.") == with_more
    # Whether the next chunk goes on with the section does not show.
    assert not questions([Chunk("a", f"# {heading}\n\n{told}", "book.md", position=3)])


@pytest.mark.parametrize(
    ("heading", "told", "asked"),
    [
        ("north_order", "This command lists the ships in the order in which they reach the harbour.", True),
        ("north_order", "This command lists the ships in the order that is described above for ships.", False),
        ("Content conflicts", "This conflict happens where two people have written the same line of a file.", True),
        ("Content conflicts", "This problem happens where two people have written the same line of a file.", False),
        ("Content conflicts", "These conflicts happen where two people have a file like the following.", False),
    ],
)
def test_what_points_back_at_its_heading_answers_it(heading: str, told: str, asked: bool) -> None:
    chunk = Chunk("a", f"# {heading}\n\n{told}\n\n# Others\n\nMore of that.", "book.md", position=3)
    assert bool(questions([chunk])) == asked


def test_what_a_heading_asks_is_answered_by_all_of_its_section() -> None:
    text = "# How do I rename the ferry?\n\nThere is nothing special about it, just paint another word on both sides."
    chunk = Chunk("a", f"{text} Then wait.\n\n# Others\n\nMore of that.", "book.md", position=3)
    (item,) = items(generate([chunk], 0))
    assert (item.question, item.answers[0][-10:]) == ("How do I rename the ferry?", "Then wait.")
    assert not items(generate([replace(chunk, text=text)], 0)), "the next chunk may say more"


def test_the_next_heading_of_a_pdf_is_no_part_of_an_answer() -> None:
    told = "The crane lamp is lit by the crew of the ferry in summer, and shows ships the way at night."
    for heading in ("10.4.1 Other lamps of the harbour.", "--with-lamp=<n>\nLights it by night."):
        text = f"Crane Lamp\n{told} It is old.\n{heading} All ships see it."
        (item,) = items(generate([Chunk("a", text, "harbour.pdf", position=3)], 0))
        assert item.answers[0] == f"{told} It is old."


def test_a_name_behind_an_introduction_is_a_subject() -> None:
    text = "In the winter of 1926, Ann Lee was made the master of the old harbour for all. The ferries had a hard time."
    (item,) = items(generate([Chunk("a", text, "1", title="Harbour Rules")], 0))
    assert item.question == "What should I know about Ann Lee in the context of “Harbour Rules”?"
