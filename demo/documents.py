"""The demo's documents: real text that every installation already has, as the rows that `rageval ingest` reads."""

import json
import re
from collections.abc import Callable, Iterable, Mapping
from importlib.metadata import Distribution, distributions
from pathlib import Path
from pydoc_data.topics import topics
from typing import Any

Row = dict[str, str]

HUMAN_BENCHMARK = Path(__file__).with_name("python-language.human.jsonl")
OWN_DISTRIBUTION = "rageval-dagster"
SHORTEST_README = 200
"""Characters; a shorter description is a notice that the README is elsewhere."""
TOPICS = {
    "expressions": """binary calls comparisons conversions dict floating identifiers integers operator-summary power
        shifting unary""".split(),
    "language": """assert async bltin-ellipsis-object break continue debugger del for formatstrings function global
        import lambda nonlocal objects pass raise return string-methods try typesmapping typesseq typesseq-mutable
        with""".split(),
}
"""The topics that the demo evaluates by the file that they are written to: those that questions are asked about, but
for the longest. The first file has a fifth of the chunks, and a third of what is asked about."""

PACKAGES = """beautifulsoup4 build certifi click cryptography mako networkx oauthlib pathlib-abc psycopg pycparser
    pydantic-core pyyaml requests starlette truststore typing-extensions typing-inspection uvicorn""".split()
"""The packages whose READMEs the demo evaluates: short ones that say something in whole sentences."""


def python_language() -> list[Row]:
    """The Python language reference by topic as rows {id, title, text}, ordered by id.

    The id is the topic's name. The topic's first line, underlined with one repeated character, becomes the title;
    the rest is the text, unchanged, so that quotes of the human benchmark stand in it word for word.
    """
    rows: list[Row] = []
    for name in sorted(topics):
        title, _, text = topics[name].strip().partition("\n")
        underline, _, body = text.partition("\n")
        if underline and set(underline) == {underline[0]} and not underline[0].isalnum():
            text = body
        rows.append({"id": name, "title": title.strip(), "text": text.strip()})
    return rows


def package_readmes() -> list[Row]:
    """The READMEs of the installed distributions as rows {id, title, text}, ordered by id.

    The id is the normalised distribution name, the title its name and one-line summary. Distributions without a
    description of at least `SHORTEST_README` characters are left out, and so is this project itself: editing its
    README would change the demo's corpus.
    """
    rows: dict[str, Row] = {}
    for distribution in distributions():
        name = _field(distribution, "Name")
        document_id = re.sub(r"[-_.]+", "-", name).lower()
        if not document_id or document_id in rows or document_id == OWN_DISTRIBUTION:
            continue
        text = clean_readme(_field(distribution, "Description"))
        if len(text) < SHORTEST_README:
            continue
        summary = " ".join(_field(distribution, "Summary").split())
        rows[document_id] = {"id": document_id, "title": f"{name}: {summary}" if summary else name, "text": text}
    return [rows[document_id] for document_id in sorted(rows)]


def _field(distribution: Distribution, name: str) -> str:
    metadata = distribution.metadata
    return metadata[name] if metadata and name in metadata else ""


CLIENTS: dict[str, Callable[[], list[Row]]] = {
    "python-language": python_language,
    "package-readmes": package_readmes,
}


def write_demo(folder: Path) -> None:
    """Writes the documents that the demo evaluates, a folder of JSON Lines files a client, and the human benchmark.

    Of the questions, those are left out whose proof stands in no document that was written.
    """
    topics = {row["id"]: row for row in python_language()}
    chosen = {name: [topics[each] for each in ids if each in topics] for name, ids in TOPICS.items()}
    for name, rows in chosen.items():
        write_rows(folder / "python-language" / f"{name}.jsonl", rows)
    readmes = [row for row in package_readmes() if row["id"] in PACKAGES]
    write_rows(folder / "package-readmes" / "readmes.jsonl", readmes)
    known = {row["id"] for rows in chosen.values() for row in rows}
    questions = []
    for row in read_rows(HUMAN_BENCHMARK):
        evidence = [each for each in row["evidence"] if each["document_id"] in known]
        if {each["quote"] for each in evidence} == {each["quote"] for each in row["evidence"]}:
            questions.append({**row, "evidence": evidence})
    write_rows(folder / HUMAN_BENCHMARK.name, questions)


def read_rows(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def write_rows(file: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")


_FENCE = re.compile(r"^( *)(```+|~~~+).*?^ *\2[`~]*[ \t]*$", re.MULTILINE | re.DOTALL)
_NOISE = [
    (re.compile(pattern, re.MULTILINE), replacement)
    for pattern, replacement in (
        (r"<!--[\s\S]*?-->", ""),
        # Markdown images, alone or as the text of a link: badges and logos
        (r"\[!\[[^\]]*\](?:\([^)]*\)|\[[^\]]*\])\](?:\([^)]*\)|\[[^\]]*\])", ""),
        (r"!\[[^\]]*\](?:\([^)]*\)|\[[^\]]*\])", ""),
        # definitions of link targets, Markdown's and reStructuredText's
        (r"^ {0,3}\[[^\]\n]+\]:[ \t]*\S+.*$", ""),
        (r"^[ \t]*\.\. _[^\n:]+:[ \t]*\S+[ \t]*$", ""),
        # reStructuredText images with their options, and lines that only place them
        (r"^([ \t]*)\.\. (?:\|[^|\n]+\| )?image::.*(?:\n\1[ \t]+:\S+:.*)*$", ""),
        (r"^[ \t]*(?:\|[^|\s][^|\n]*\|_{0,2}[ \t]*)+$", ""),
        # tags that only lay out; others may be code, such as List<int>
        (
            r"</?(?:a|b|br|center|details|div|em|figure|h[1-6]|hr|i|img|p|picture|source|span|strong|sub|summary|sup"
            r"|table|tbody|td|th|thead|tr)(?:\s[^<>]*)?/?>",
            "",
        ),
        (r"[ \t]+$", ""),
        (r"\n{3,}", "\n\n"),
    )
]


def clean_readme(text: str) -> str:
    """The README without badges, images, link definitions and layout tags; fenced code stays as it is."""
    text = text.replace("\r\n", "\n")
    pieces: list[str] = []
    end = 0
    for fence in _FENCE.finditer(text):
        pieces += [_without_noise(text[end : fence.start()]), fence.group()]
        end = fence.end()
    pieces.append(_without_noise(text[end:]))
    return "".join(pieces).strip()


def _without_noise(text: str) -> str:
    for pattern, replacement in _NOISE:
        text = pattern.sub(replacement, text)
    return text
