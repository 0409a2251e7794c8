"""Documents whose ids are hashes: people read their titles, programs their ids."""

import base64
import csv
import gzip
import json
import re
from pathlib import Path

from rageval_dagster.identity import digest
from tests.cli.running import Run
from tests.pipeline.small_project import Project, documents

ROWS = [{**row, "id": digest(row["id"])} for row in documents("lighthouse", count=4)]
IDS = [row["id"] for row in ROWS]
TITLES = [row["title"] for row in ROWS]


def speaks(text: str) -> bool:
    """Whether titles stand in a text, and no id."""
    return any(title in text for title in TITLES) and not any(document_id in text for document_id in IDS)


def test_titles_are_shown_wherever_a_person_reads(project: Project, run: Run) -> None:
    # Large chunks, whose own ids, which hold the document's, are shown beside them.
    project.ingest("acme", ROWS, chunk_size=0)
    assert run("evaluate", "--client", "acme", "--system", "bm25").code == 0
    shown = run("datasets", "show", "1").out
    assert speaks(shown), shown
    shown = run("runs", "show", "1", "--by", "document").out
    assert speaks(shown), shown
    shown = run(
        "runs", "show", "1", "--question", json.loads(run("datasets", "show", "1", "--json").out)["items"][0]["item_id"]
    )
    assert any(title in shown.out for title in TITLES)
    assert run("datasets", "review", "--client", "acme", "--out", "review.csv").code == 0
    with Path("review.csv").open(encoding="utf-8-sig", newline="") as file:
        reviewed = list(csv.DictReader(file))
    assert {row["title"] for row in reviewed} <= set(TITLES)
    assert {row["document_id"] for row in reviewed} <= set(IDS)
    assert run("datasets", "review", "--client", "acme", "--read", "review.csv").code == 0
    items = json.loads(run("datasets", "show", "1", "--json").out)["items"]
    assert {each["document_id"] for item in items for each in item["evidence"]} <= set(IDS)


def test_the_report_names_documents_by_their_titles_and_not_where_texts_are_to_stay_out(
    project: Project, run: Run
) -> None:
    project.ingest("acme", ROWS, chunk_size=0)
    assert run("evaluate", "--client", "acme", "--system", "bm25").code == 0

    def report(*options: str) -> str:
        path = Path(run("report", "--client", "acme", *options).out.splitlines()[0])
        page = path.read_text(encoding="utf-8")
        packed = [gzip.decompress(base64.b64decode(each)).decode() for each in re.findall(r">(H4sI[^<]+)<", page)]
        assert packed
        return "\n".join([page, *packed])

    page = report()
    assert all(f'"ev":["{title}"]' in page for title in TITLES)
    assert f'"ev":["{IDS[0]}"]' not in page
    assert not any(title in report("--redact") for title in TITLES)
