"""The demo's documents: complete, the same every time, and clean without losing content."""

import json
import sys
from importlib import import_module
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "demo"))
documents = import_module("documents")


def test_every_topic_becomes_a_document_with_its_heading_as_title() -> None:
    rows = {row["id"]: row for row in documents.python_language()}
    assert set(rows) == set(documents.topics)
    assert rows["typesmapping"]["title"].startswith("Mapping Types")
    assert not any(row["text"].split("\n")[0] == row["title"] for row in rows.values())
    assert all(row["text"] for row in rows.values())


def test_readmes_are_long_enough_ordered_and_not_our_own() -> None:
    rows = documents.package_readmes()
    ids = [row["id"] for row in rows]
    assert ids == sorted(set(ids))
    assert "pytest" in ids
    assert documents.OWN_DISTRIBUTION not in ids
    assert all(len(row["text"]) >= documents.SHORTEST_README for row in rows)


def test_writing_twice_gives_the_same_files(tmp_path: Path) -> None:
    first = documents.write_demo(tmp_path / "a")
    second = documents.write_demo(tmp_path / "b")
    assert [file.name for file in first] == ["python-language.jsonl", "package-readmes.jsonl"]
    for file, again in zip(first, second, strict=True):
        assert file.read_bytes() == again.read_bytes()
        assert all(set(json.loads(line)) == {"id", "title", "text"} for line in file.read_text("utf-8").splitlines())


def test_cleaning_drops_badges_and_layout_but_no_content() -> None:
    readme = """<h1 align="center">Tool</h1>
<!-- badges -->
[![Build](https://img.example/b.svg)](https://ci.example) ![logo](logo.png)
.. image:: https://img.example/c.svg
   :target: https://ci.example

|pypi| |docs|

Reads `List<int>` and [the manual](https://docs.example).

[build]: https://ci.example

```html
<div>![kept](as-is.png)</div>
```
"""
    assert documents.clean_readme(readme) == (
        "Tool\n\nReads `List<int>` and [the manual](https://docs.example).\n\n```html\n<div>![kept](as-is.png)</div>\n```"
    )
