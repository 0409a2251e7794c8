"""What a system said, written in each format and read back: nothing that the format holds is lost."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rageval_dagster.errors import DatasetError
from rageval_dagster.metrics.interface import MetricOptions, Tools
from rageval_dagster.metrics.registry import compute_scores, metrics_of
from rageval_dagster.recorded.formats import OutputOptions, OutputsReport, detect_format, read_outputs
from rageval_dagster.recorded.writing import OUTPUT_WRITERS, write_outputs
from rageval_dagster.records import Answer, Evidence, Hit, Item, Result, page_id
from rageval_dagster.settings import Settings
from tests.metrics.metric_samples import TinyEmbedder, unjudged

FIRST_REFERENCE_ONLY = ("recorded", "ragas", "test-results")
WITHOUT_IDS = ("recorded", "ragas")
WITH_PAGES = ("test-results", "native")

texts = st.text("ab c1.[]\n\"'é漢", min_size=1, max_size=20).filter(str.strip)
document_ids = st.sampled_from(["d1", "d2", "d3"])


@st.composite
def results(draw: st.DrawFn, page: int | None) -> Result:
    """What came back is of this page, if the store knows pages; evidence names some either way."""
    evidence = tuple(
        Evidence(document_id, draw(st.none() | st.integers(1, 3)))
        for document_id in draw(st.lists(document_ids, max_size=2, unique=True))
    )
    hits = tuple(
        Hit(f"c{rank}", draw(document_ids), rank, draw(st.floats(0, 1)), draw(texts), page)
        for rank in range(1, draw(st.integers(0 if page is None else 1, 4)) + 1)
    )
    wanted = frozenset(page_id(each.document_id, each.page) for each in evidence if each.is_page)
    return Result(
        item=Item(draw(texts), tuple(draw(st.lists(texts, max_size=2))), evidence),
        relevant_chunks=None if page is None else wanted or None,
        relevant_documents=frozenset(each.document_id for each in evidence) or None,
        hits=hits,
        k=5,
        answer=draw(st.none() | st.builds(Answer, texts | st.just(""))),
        contexts=tuple(hit.text for hit in hits),
    )


def round_trip(found: dict[str, Result], format_name: str, folder: Path) -> OutputsReport:
    path = folder / f"{format_name}{OUTPUT_WRITERS[format_name].suffix}"
    for old in path.glob("*"):
        old.unlink()
    if path.is_dir():
        path.rmdir()
    write_outputs(found, path, format_name)
    if format_name != "test-results":
        return read_outputs(path, format_name)
    return read_outputs(path / "test_results.json", format_name, OutputOptions(ground_truth=path / "ground_truth.json"))


@pytest.mark.parametrize("format_name", OUTPUT_WRITERS)
@given(st.data())
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_the_scores_are_the_same_for_all_that_the_format_holds(
    tmp_path: Path, format_name: str, data: st.DataObject
) -> None:
    page = data.draw(st.none() | st.just(2)) if format_name in WITH_PAGES else None
    written = data.draw(st.lists(results(page), min_size=1, max_size=4))
    found = {f"item {number}": result for number, result in enumerate(written)}
    report = round_trip(found, format_name, tmp_path)
    assert report.refused == []
    assert [output.id for output in report.rows] == list(found)
    metrics = [
        metric
        for metric in unjudged(MetricOptions(k=5, embedder_version="tiny@1"))
        if not (format_name in WITHOUT_IDS and metric.needs & {"hits", "evidence"})
        and not (format_name in FIRST_REFERENCE_ONLY and "reference" in metric.needs)
        # What is a chunk's own id, and what was said of a question beside its references, is another thing elsewhere.
        and metric.family not in (("citation", "quality") if format_name != "native" else ())
        and metric.id != "retrieval.foreign_hits"
    ]
    before = compute_scores(metrics, written, Tools(TinyEmbedder()))
    after = compute_scores(metrics, [output.result for output in report.rows], Tools(TinyEmbedder()))
    assert after == before


def test_the_native_format_keeps_everything(tmp_path: Path) -> None:
    item = Item(
        "Where?",
        ("There.", "Here."),
        (Evidence("d1", 3, "It is there."), Evidence("gone")),
        answerable=False,
        checks=({"name": "place", "kind": "fact", "expect": "there"},),
    )
    hits = (Hit("c1", "d1", 1, 0.5, "It is there.", 3), Hit("c2", "d2", 2, 0.25, "It is not."))
    said = Result(item, None, frozenset({"d1"}), hits, 5, Answer("No.", True, ("c1",)), ("It is there.", "It is not."))
    failed = Result(Item("Why?"), None, None, (), 5, error="timeout: 60 s", tells_contexts=False)
    report = round_trip({"a": said, "b": failed}, "native", tmp_path)
    first, second = (output.result for output in report.rows)
    assert first.hits == hits
    assert first.answer == said.answer
    assert first.item.checks == item.checks
    assert not first.item.answerable
    # A document that the corpus does not have could not be found by anybody.
    assert first.item.evidence == (Evidence("d1", 3, "It is there."),)
    assert second.error == "timeout: 60 s"


@pytest.mark.parametrize("format_name", OUTPUT_WRITERS)
def test_what_is_not_known_is_not_written_as_if_it_were(tmp_path: Path, format_name: str) -> None:
    """A system that does not tell its contexts, and one whose contexts' words were deleted."""
    hits = (Hit("c1", "d1", 1, 0.5, ""),)
    silent = Result(Item("Where?"), None, None, (), 5, Answer("There."), tells_contexts=False)
    wordless = Result(Item("When?"), None, None, hits, 5, Answer("Then."), contexts=("",))
    report = round_trip({"a": silent, "b": wordless}, format_name, tmp_path)
    metrics = [metric for metric in metrics_of(Settings(), 5) if "contexts" in metric.needs]
    assert metrics
    for column in compute_scores(metrics, [output.result for output in report.rows], Tools()).values():
        assert [outcome.status for outcome in column] == ["undefined", "undefined"]


def test_files_are_told_by_their_fields_when_they_come_back(tmp_path: Path) -> None:
    item = Item("Where?", ("There.",), (Evidence("d1"),))
    hit = Hit("c1", "d1", 1, 0.5, "It is there.")
    result = Result(item, None, frozenset({"d1"}), (hit,), 5, Answer("There."), ("It is there.",))
    for name in set(OUTPUT_WRITERS) - {"test-results"}:
        path = tmp_path / name
        write_outputs({"a": result}, path, name)
        assert detect_format(path, {}) == name
    with pytest.raises(DatasetError, match="unknown format 'beir'"):
        write_outputs({}, tmp_path / "x", "beir")
