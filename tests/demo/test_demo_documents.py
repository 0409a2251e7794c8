"""The demo's documents: complete, the same every time, and clean without losing content."""

import json
import sys
from importlib import import_module
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "demo"))
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


def test_questions_are_about_documents_that_are_written(tmp_path: Path) -> None:
    documents.write_demo(tmp_path)
    clients = {
        client: {row["id"] for file in (tmp_path / client).iterdir() for row in documents.read_rows(file)}
        for client in ("python-language", "package-readmes")
    }
    assert clients["python-language"] == {each for topics in documents.TOPICS.values() for each in topics}
    assert 10 <= len(clients["package-readmes"]) <= len(documents.PACKAGES)
    questions = documents.read_rows(tmp_path / documents.HUMAN_BENCHMARK.name)
    evidence = [each["document_id"] for row in questions for each in row["evidence"]]
    assert set(evidence) <= clients["python-language"]
    assert len(questions) >= 60
    assert all(row["answerable"] == bool(row["evidence"]) for row in questions)
    sample = json.loads((ROOT / "data" / "evaluation" / "sample_test_cases.json").read_text(encoding="utf-8"))
    assert {each for case in sample["test_cases"] for each in case["expected_sources"]} <= clients["python-language"]


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
