"""Reading documents from files and cutting them into chunks."""

import json
import os
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rageval_dagster.corpus.html_pages import html_text
from rageval_dagster.corpus.readers import Document, ReadError, Section, count_documents, read_documents
from rageval_dagster.corpus.splitting import ChunkSize, cut, split_document
from rageval_dagster.records import Chunk


@pytest.fixture
def write(tmp_path: Path):
    def to_file(name: str, content: str | bytes) -> Path:
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return to_file


def read_one(path: Path) -> Document:
    [document] = read_documents(path)
    assert isinstance(document, Document)
    return document


def test_text_is_cleaned_of_what_databases_refuse(write) -> None:
    assert read_one(write("a.txt", b"\xef\xbb\xbfone\r\ntwo\x00 three\r\n\r\n")).sections == [Section("one\ntwo three")]


@pytest.mark.parametrize("name", ["a.txt", "a.md", "a.html"])
def test_files_without_text_are_refused(write, name: str) -> None:
    with pytest.raises(ReadError, match="holds no text"):
        list(read_documents(write(name, " \n---\n")))


def test_html_gives_what_a_reader_sees() -> None:
    page = b"""<!DOCTYPE html><html><head><title>The  guide</title><style>p {color: red}</style></head>
    <body><script>var x = 1;</script><!-- a comment -->
    <h1>Setting <em>up</em></h1><p>First
       line,<br>second line.</p><ul><li>one</li><li>two</li></ul>
    <pre>if a:
    b()</pre><noscript>no</noscript></body></html>"""
    assert html_text(page).text == (
        "The guide\n\n# Setting up\n\nFirst line,\nsecond line.\n\n- one\n\n- two\n\n```\nif a:\n    b()\n```"
    )


def test_html_leaves_out_what_stands_beside_its_contents() -> None:
    menu = "".join(f'<li><a href="{number}">Chapter {number}</a></li>' for number in range(5))
    beside = f"""<nav>Start</nav><div class="related" role="navigation">next</div><form role='search'>Find</form>
    <ul>{menu}</ul>"""
    page = f"<title>Guide</title><body>{beside}<h2>Tea</h2><p>It <b>steeps</b>.<footer>© 2026 Tea Ltd.</footer>"
    assert html_text(page.encode()).text == "Guide\n\n## Tea\n\nIt steeps."
    main = "<article><p>It steeps.</p><footer>By Ann</footer></article>"
    assert html_text(f"<p>Aside{beside}<main>{main}</main><p>More".encode()).text == "It steeps.\n\nBy Ann"


def test_html_tells_what_it_left_out_in_the_order_of_the_page(write) -> None:
    page = "<title>T</title><nav>Home <a>Teas</a></nav><main>It steeps.<pre>x</pre></main><footer>© Tea Ltd.</footer>"
    assert html_text(page.encode()).left_out == "Home Teas © Tea Ltd."
    assert html_text(b"<nav>Home</nav>").left_out == ""
    assert len(html_text(f"<nav>{'tea ' * 50_000}</nav>It steeps.".encode()).left_out) == 50_000
    document = read_one(write("a.html", page.encode()))
    assert document.left_out == "Home Teas © Tea Ltd."


def test_html_with_nothing_but_navigation_keeps_it() -> None:
    assert html_text(b"<main></main><nav><p>One</p><p>Two</p></nav>").text == "One\n\nTwo"


def test_a_list_that_says_more_than_its_links_is_text() -> None:
    items = "".join(
        f'<li><a href="{number}">Tea {number}</a>: steep it for {number} minutes</li>' for number in "12345"
    )
    assert html_text(f"<ul>{items}</ul>".encode()).text.count("steep it") == 5


def test_a_table_of_links_is_a_menu_also_within_the_table_that_lays_out_its_page() -> None:
    cells = "".join(f'<td>[<a href="{number}">Chapter {number}</a>]</td>' for number in range(5))
    menu, told = f"<table><tr>{cells}</tr></table>", "<p>Tea steeps for five minutes.</p>"
    page = f"<table><tr><td>{menu}</td><td>{told}<ul><li>One</ul></td></tr></table>{menu}"
    for each in (page, f"{menu}{told}<ul><li>One</ul>"):
        found = html_text(each.encode())
        assert (found.text, found.left_out.count("Chapter 4")) == (
            "Tea steeps for five minutes.\n\n- One",
            each.count("Chapter 4"),
        )
    minutes = cells.replace("]</td>", " takes some minutes]</td>")
    assert html_text(f"<table><tr>{minutes}</tr></table>".encode()).text.count("takes some minutes") == 5


def test_a_page_of_preformatted_prose_has_no_fences() -> None:
    assert html_text(b"<h1>RFC 1</h1><pre>A host sends.\n\nAnother replies at once.</pre>").text == (
        "# RFC 1\n\nA host sends.\n\nAnother replies at once."
    )


def test_code_that_is_marked_as_such_has_fences_on_a_page_of_nothing_else() -> None:
    code = '<span class="k">def</span> <span class="nf">brew</span>():\n    <span class="k">return</span> TEA'
    assert html_text(f"<h1>Source</h1><pre>{code}</pre>".encode()).text == (
        "# Source\n\n```\ndef brew():\n    return TEA\n```"
    )


def test_items_of_html_lists_have_marks_and_what_they_hold_is_indented() -> None:
    page = b"""<p>Brew:<ol> <li><p>Boil</p><p>Wait.<ul><li>black<li> <b>green</b> tea</ul>
    <li><h2>Pour</h2>Slowly.</ol><li>Stray<p>Done."""
    assert html_text(page).text == (
        "Brew:\n\n1. Boil\n\n  Wait.\n\n  - black\n\n  - green tea\n\n## Pour\n  Slowly.\n\n- Stray\n  Done."
    )


def test_headings_of_html_are_one_line_and_empty_ones_none() -> None:
    page = b"<h2></h2><h1>\n <a>Tea</a><br>and\n coffee</h1><p>Hot.<h3> </h3>Cold."
    assert html_text(page).text == "# Tea and coffee\n\nHot.\n\nCold."


@pytest.mark.parametrize(
    ("page", "text"),
    [
        ("<div>" * 20_000 + "x" + "</div>" * 20_000, "x"),
        ("<textarea>" * 2_000 + "x", "x"),
        ("<ul><li>" * 20_000 + "x" + "<li>" * 20_000, "- x"),
        ("x" + "<!--" * 100_000, "x"),
        ("x" + "<!-- -->" * 100_000 + "<!--", "x"),
        ("x" + "<a b='" * 100_000, "x"),
        ("x" + "<script></" * 100_000, "x"),
        ("x" + "<![CDATA[" * 100_000, "x"),
        (f"x&#{'9' * 5_000};y", "x\ufffdy"),
    ],
)
def test_html_is_read_in_time_however_deep_or_broken_it_is(page: str, text: str) -> None:
    began = time.process_time()
    assert html_text(page.encode()).text == text
    assert time.process_time() - began < 20, "minutes, where it is quadratic"


def test_html_may_leave_out_what_ends_its_head_and_have_markup_in_attributes() -> None:
    assert (
        html_text(b"<html><head><title>T</title><body><p title='a>b'>x<br/>y<input value=\"</p>\">z").text
        == "T\n\nx\nyz"
    )


def test_html_says_its_encoding_and_its_title_once() -> None:
    page = '<meta charset="iso-8859-1"><title>Größe</title><h1>Größe</h1><p>Maß'.encode("latin-1")
    assert html_text(page).text == "# Größe\n\nMaß"


def test_pages_of_a_pdf_are_sections(write, make_pdf) -> None:
    document = read_one(write("a.pdf", make_pdf(["First page", "", "Third page"])))
    assert document.sections == [Section("First page", 1), Section("Third page", 3)]


def test_a_broken_pdf_is_refused(write, make_pdf) -> None:
    for content in (b"%PDF-1.4 nonsense", b"", make_pdf(["x"])[:200]):
        with pytest.raises(ReadError, match=r"is not a readable PDF"):
            list(read_documents(write("a.pdf", content)))
    with pytest.raises(ReadError, match="holds no text"):
        list(read_documents(write("b.pdf", make_pdf([""]))))


def test_an_encrypted_pdf_is_refused(write, make_pdf) -> None:
    # By pypdf, with a user's password.
    lock = (
        b"/Encrypt << /Filter /Standard /V 2 /R 3 /Length 128 /P -4"
        b" /O <408b37bcf12da873d7f2840f3c1b917a023961ded4c8164d38e46e9655e66775>"
        b" /U <856b167b232cb6b21b3d896238bf8b7d28bf4e5e4e758a4164004e56fffa0108> >>"
        b" /ID [<edc4afeff7c3aa52e27456707d3939a4> <edc4afeff7c3aa52e27456707d3939a4>]"
    )
    path = write("a.pdf", make_pdf(["secret"]).replace(b"/Root 1 0 R", b"/Root 1 0 R " + lock))
    with pytest.raises(ReadError, match="is an encrypted PDF"):
        list(read_documents(path))


def test_a_word_that_the_end_of_a_line_broke_is_whole(write, make_pdf) -> None:
    two_lines = "sending this is pos-) Tj 0 -14 Td (sible today"
    assert read_one(write("a.pdf", make_pdf([two_lines]))).sections == [Section("sending this is possible today", 1)]


def test_a_row_is_a_document_and_a_bad_row_is_named(write) -> None:
    rows = [
        '{"id": "a", "title": "Title", "text": "Body", "metadata": {"lang": "en", "year": 2024, "none": null}}',
        "",
        '{"_id": 7, "text": "seven"}',
        "{broken",
        "[1]",
        '{"text": "no id"}',
        '{"id": true, "text": "x"}',
        '{"id": "b"}',
        '{"id": "b", "text": " "}',
        '{"id": "b", "text": "x", "title": 3}',
        '{"id": "b", "text": "x", "metadata": {"tags": ["y"]}}',
        '{"id": "b", "text": "x", "metadata": {"n": NaN}}',
        '{"id": " ", "text": "x"}',
        "[" * 200_000,
        *(f'{{"id": "b", "text": "x", "metadata": {{"{name}": 1}}}}' for name in ("chroma:document", "#x", "$and", "")),
        json.dumps({"id": "b", "text": "x", "metadata": dict.fromkeys(map(str, range(1_001)), 1)}),
        '{"id": "c", "text": "last"}',
    ]
    path = write("rows.jsonl", "\n".join(rows))
    assert count_documents(path) == 19
    found = list(read_documents(path))
    documents = {each.id: each for each in found if isinstance(each, Document)}
    assert {name: each.sections[0].text for name, each in documents.items()} == {
        "a": "Title\nBody",
        "7": "seven",
        "c": "last",
    }
    assert documents["a"].metadata == {"lang": "en", "year": 2024, "title": "Title"}
    assert [str(each) for each in found if isinstance(each, ReadError)] == [
        "row 4: is not JSON",
        "row 5: is not a JSON object",
        "row 6: field 'id' takes a text or a whole number",
        "row 7: field 'id' takes a text or a whole number",
        "row 8: field 'text' takes a text",
        "row 9: holds no text",
        "row 10: field 'title' takes a text",
        "row 11: field 'metadata' takes texts, numbers, true and false, no lists or objects",
        "row 12: field 'metadata' takes texts, numbers, true and false, no lists or objects",
        "row 13: field 'id' takes a text or a whole number",
        "row 14: is nested too deeply",
        *(
            f"row {number}: field 'metadata' takes names that are not empty and do not begin with #, $, chroma:"
            for number in range(15, 19)
        ),
        "row 19: field 'metadata' takes at most 1,000 names",
    ]


HTML_PIECES = st.sampled_from(
    "<div> </div> <pre> </pre> <br> <br/> <title> </title> <head> <body> <script> </script> <textarea> <!-- --> <!- "
    "<![CDATA[ ]]> <!x <? <a b=' > </ &#x &#99999999; &amp &unknown; ' \" = / x Größe".split(" ")
)
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inside: st.lists(inside) | st.dictionaries(st.text(), inside),
    max_leaves=8,
)
ROWS = st.fixed_dictionaries({"id": JSON_VALUES, "text": st.text() | JSON_VALUES}, optional={"metadata": JSON_VALUES})
CONTENTS = st.one_of(
    st.binary().map(lambda content: (".txt", content)),
    st.binary().map(lambda content: (".html", content)),
    st.binary().map(lambda content: (".pdf", b"%PDF-1.7\n" + content)),
    st.lists(HTML_PIECES | st.text(), max_size=40).map(
        lambda pieces: (".html", "".join(pieces).encode("utf-8", "surrogatepass"))
    ),
    st.text().map(lambda text: (".md", text.encode("utf-8", "surrogatepass"))),
    st.lists(ROWS.map(json.dumps) | st.text(), max_size=5).map(
        lambda rows: (".jsonl", "\n".join(rows).encode("utf-8", "surrogatepass"))
    ),
)


@settings(max_examples=int(os.environ.get("RAGEVAL_TEST_EXAMPLES", "200")))
@given(CONTENTS)
def test_any_file_gives_what_can_be_stored_or_an_error(file: tuple[str, bytes]) -> None:
    """RAGEVAL_TEST_EXAMPLES says how many files to try."""
    suffix, content = file
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"a{suffix}"
        path.write_bytes(content)
        try:
            found = list(read_documents(path))
        except ReadError as error:
            found = [error]
    for each in found:
        if isinstance(each, ReadError):
            assert str(each).isascii()
            continue
        texts = [section.text for section in cut(each, ChunkSize(20, 5))]
        named = [*each.metadata, *(value for value in each.metadata.values() if isinstance(value, str))]
        for text in [*texts, *named, each.id or ""]:
            assert text.encode("utf-8").find(0) == -1
        assert all(name and not name.startswith(("#", "$", "chroma:")) for name in each.metadata)
        assert each.id != "", "the file's name would take its place"


def split(
    sections: Sequence[Section], characters: int = 800, overlap: int = 0, is_markdown: bool = False
) -> list[Chunk]:
    document = Document(list(sections), is_markdown=is_markdown)
    return split_document("acme", "d.md", document, ChunkSize(characters, overlap))


def test_chunks_are_no_longer_than_asked_and_hold_the_whole_text() -> None:
    text = " ".join(f"Sentence {number} has some words." for number in range(200))
    chunks = split([Section(text)], 200, 40)
    assert all(0 < len(chunk.text) <= 200 for chunk in chunks)
    assert [chunk.position for chunk in chunks] == list(range(len(chunks)))
    for number in range(200):
        assert any(f"Sentence {number} has some words." in chunk.text for chunk in chunks)


@pytest.mark.parametrize("line", ["word " * 25_000, "x" * 125_000])
def test_a_line_of_any_length_is_read_whole_and_leaves_what_stands_around_it(line: str) -> None:
    around = [f"Paragraph {number} " + "with words " * 30 for number in range(9)]
    chunks = split([Section("\n\n".join([*around, line, *around]))])
    assert all(0 < len(chunk.text) <= 800 for chunk in chunks)
    letters = sum(chunk.text.count(line[0]) for chunk in chunks)
    assert letters == line.count(line[0]) + 2 * sum(each.count(line[0]) for each in around)
    alone = [chunk.text for chunk in split([Section("\n\n".join(around))])]
    assert [chunk.text for chunk in chunks][: len(alone) - 1] == alone[:-1]


def test_chunks_never_span_pages() -> None:
    chunks = split([Section("one", 1), Section("two " * 100, 2)], 300)
    assert [(chunk.page, chunk.position) for chunk in chunks] == [(1, 0), (2, 1), (2, 2)]
    assert len(split([Section("word " * 5000)], 0)) == 1, "0 keeps a document whole"


def test_markdown_is_cut_at_its_headings() -> None:
    text = "# One\n\n" + "a " * 50 + "\n\n# Two\n\n" + "b " * 50
    assert [chunk.text[:5] for chunk in split([Section(text)], 150, is_markdown=True)] == ["# One", "# Two"]


def test_a_heading_stands_with_what_follows_it_where_there_is_room() -> None:
    told = "The tea steeps for some minutes. " * 4
    text = f"Tea — a guide\n\n# Tea\n\n## Black\n\n{told}\n\n## Green\n\n{told}\n\nBrew:\n\n- hot\n\n- long"
    for overlap in (0, 40):
        chunks = split([Section(text)], 200, overlap, is_markdown=True)
        assert chunks[0].text.startswith("Tea — a guide\n\n# Tea\n\n## Black\n\nThe tea steeps")
        assert all(
            len(chunk.text) <= 200 and "steeps" in chunk.text + "steeps" * ("hot" in chunk.text) for chunk in chunks
        )
    # Without room they stay alone.
    full = "The tea steeps for some minutes. " * 6
    chunks = split([Section(f"# Tea of the mountains\n\n## Black\n\n{full}")], 200, is_markdown=True)
    assert chunks[0].text == "# Tea of the mountains\n\n## Black"


def test_an_edit_at_the_top_renews_few_ids() -> None:
    paragraphs = [f"Paragraph {number} " + "with words " * (20 + number % 7) for number in range(60)]
    before = {chunk.id for chunk in split([Section("\n\n".join(paragraphs))], 800, 120)}
    paragraphs[0] = "A wholly new beginning of this document."
    after = {chunk.id for chunk in split([Section("\n\n".join(paragraphs))], 800, 120)}
    assert len(before & after) > 0.8 * len(before)


def test_ids_belong_to_client_and_document() -> None:
    document = Document([Section("same words")])
    ids = {
        split_document(client, name, document, ChunkSize(800, 0))[0].id for client in "ab" for name in ("x.md", "y.md")
    }
    assert len(ids) == 4
    assert len({chunk.id for chunk in split([Section("same words", 1), Section("same words", 2)])}) == 2
