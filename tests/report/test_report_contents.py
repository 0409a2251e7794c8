"""What the report gathers: groups in the order of their trouble, and how many questions more would tell."""

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from rageval_dagster.evaluation.summary import EvaluationReport
from rageval_dagster.gate.baselines import accept
from rageval_dagster.gate.decision import judged_before
from rageval_dagster.identity import digest
from rageval_dagster.records import Answer, Evidence, Item, Outcome
from rageval_dagster.report.charts import HEIGHT, sparkline
from rageval_dagster.report.contents import MoreQuestions, client_contents, more_questions
from rageval_dagster.report.page import client_page
from rageval_dagster.settings import load_settings
from rageval_dagster.storage.benchmark import save_stats
from rageval_dagster.storage.comparisons import MetricComparison
from rageval_dagster.storage.corpus import ManifestEntry, Passages, delete_manifest, upsert_manifest
from rageval_dagster.storage.database import Database
from rageval_dagster.storage.evaluations import update_evaluation
from rageval_dagster.storage.results import save_results, save_retrievals
from rageval_dagster.storage.scores import save_summaries
from rageval_dagster.storage.types import utc_now
from tests.gate.gated_history import SPEC, evaluated, held, ranks
from tests.storage.history_builder import (
    MRR,
    finish,
    make_dataset,
    make_items,
    open_run,
    result_of,
    retrieval_of,
    score_all,
    summary,
)

SETTINGS = load_settings({})


def items_of(document: str, count: int) -> list[Item]:
    return [Item(f"{document} {n}?", ("a",), (Evidence(document, None, f"quote {n}"),)) for n in range(count)]


def nights(db: Database, items: Sequence[Item], count: int = 2) -> Iterator[EvaluationReport]:
    """Evaluations that find the evidence of every question first."""
    dataset = make_dataset(db, "acme", items)
    for night in range(count):
        yield evaluated(db, dataset, f"n{night}", {item.item_id: 1.0 for item in items}, items=items)


def test_groups_stand_by_value_then_size_then_name_and_single_questions_last(sqlite_db: Database) -> None:
    worth = {"alone": 0.0, "b-few": 0.0, "c-many": 0.0, "a-few": 0.0, "fair": 0.5, "z-good": 1.0}
    sizes = {"alone": 1, "b-few": 2, "c-many": 5, "a-few": 2, "fair": 3, "z-good": 2}
    values = {item: worth[name] for name, size in sizes.items() for item in items_of(name, size)}
    dataset = make_dataset(sqlite_db, "acme", list(values))
    ranks: dict[str, float | None] = {item.item_id: value for item, value in values.items()}
    held(sqlite_db, evaluated(sqlite_db, dataset, "n1", ranks, items=list(values)), spec=SPEC)
    [contents] = client_contents(sqlite_db, SETTINGS, "acme").evaluations
    found = [(group.name, group.n) for group in contents.groups["document"]]
    assert found == [("c-many", 5), ("a-few", 2), ("b-few", 2), ("fair", 3), ("z-good", 2), ("alone", 1)]


def test_what_changed_names_documents_and_questions(sqlite_db: Database) -> None:
    items = items_of("terms.md", 30)
    before = make_dataset(sqlite_db, "acme", items)
    ranks: dict[str, float | None] = {item.item_id: 1.0 for item in items}
    held(sqlite_db, evaluated(sqlite_db, before, "n1", ranks, items=items), spec=SPEC)
    now = utc_now()
    entries = [manifest_entry("terms.md", "t1", now), manifest_entry("<new>.md", "n1", now)]
    earlier = [manifest_entry(name, name, now - timedelta(days=1)) for name in ("terms.md", "old.md")]
    upsert_manifest(sqlite_db, "acme", earlier)
    added = {name: Passages(added=1) for name in ("terms.md", "<new>.md")}
    upsert_manifest(sqlite_db, "acme", entries, documents=added)
    delete_manifest(sqlite_db, "acme", [digest("old.md")])
    fewer = make_dataset(sqlite_db, "acme", items[1:])
    left = {item.item_id: 1.0 for item in items[1:]}
    held(sqlite_db, evaluated(sqlite_db, fewer, "n2", left, items=items[1:], corpus="corpus-2"), spec=SPEC)
    contents = client_contents(sqlite_db, SETTINGS, "acme")
    [found] = contents.evaluations
    assert {name: change.said for name, change in found.documents.items()} == {
        "<new>.md": "new",
        "old.md": "removed",
        "terms.md": "passages: 1 new, 2 in all",
    }
    assert [(each.item.question, each.why) for each in found.gone] == [
        ("terms.md 0?", "it made room for others, or was removed"),
    ]
    page = client_page(contents)
    assert "3 documents that changed" in page
    assert "&lt;new&gt;.md" in page
    assert "on 29 shared questions" in page
    [redacted] = client_contents(sqlite_db, SETTINGS, "acme", redact=True).evaluations
    assert (redacted.documents, redacted.gone) == ({}, [])


@pytest.mark.parametrize(
    ("there", "said", "names"),
    [
        (0, "20 documents are gone", "doc-0, doc-1, doc-10"),
        (8, "12 documents are gone, 8 that held evidence were edited or cut", "doc-10, doc-11, doc-12"),
        (20, "20 documents that held evidence were edited or cut", "Rules 0, Rules 1, Rules 10"),
    ],
)
def test_lost_evidence_tells_what_became_of_the_documents_and_names_some(
    there: int, said: str, names: str, sqlite_db: Database
) -> None:
    items = make_items(60)
    dataset = make_dataset(sqlite_db, "acme", items)
    ranks: dict[str, float | None] = {item.item_id: 1.0 for item in items}
    held(sqlite_db, evaluated(sqlite_db, dataset, "n1", ranks, items=items), spec=SPEC)
    entries = [manifest_entry(f"doc-{n}", f"c{n}", utc_now()) for n in range(there)]
    upsert_manifest(sqlite_db, "acme", [replace(each, title=f"Rules {n}") for n, each in enumerate(entries)])
    ranks |= {item.item_id: math.nan for item in items[:20]}
    [judged] = held(sqlite_db, evaluated(sqlite_db, dataset, "n2", ranks, items=items), spec=SPEC)
    assert judged_before(sqlite_db, judged.evaluation) == judged
    page = client_page(client_contents(sqlite_db, SETTINGS, "acme"))
    told = f"{said}; 20 of 60 questions lost their evidence"
    assert f"{told}. Such as: {names}</li>" in page
    assert f"If that was intended: rageval runs accept {judged.evaluation.id}; if not, restore" in page
    redacted = client_page(client_contents(sqlite_db, SETTINGS, "acme", redact=True), redacted=True)
    assert f"{told}</li>" in redacted


def test_where_the_store_names_no_documents_passages_are_told(sqlite_db: Database) -> None:
    items = make_items(60)
    dataset = make_dataset(sqlite_db, "acme", items)
    ranks: dict[str, float | None] = {item.item_id: 1.0 for item in items}
    held(sqlite_db, evaluated(sqlite_db, dataset, "n1", ranks, items=items), spec=SPEC)
    upsert_manifest(sqlite_db, "acme", [manifest_entry("c1", "c1", utc_now())])
    ranks |= {item.item_id: math.nan for item in items[:20]}
    [judged] = held(sqlite_db, evaluated(sqlite_db, dataset, "n2", ranks, items=items), spec=SPEC)
    assert judged.judgement.changes[0].detail == (
        "20 passages were removed or edited; 20 of 60 questions lost their evidence"
    )


def test_a_question_that_was_declined_and_a_stand_in_are_named(sqlite_db: Database) -> None:
    items = make_items(2)
    evaluation = open_run(sqlite_db, make_dataset(sqlite_db, "acme", items), "n1")
    retrievals = list(map(retrieval_of, items))
    results = [replace(result_of(each), answer=Answer("I cannot say.", declined=True)) for each in retrievals]
    save_retrievals(sqlite_db, evaluation.id, [(each, digest(each.item_id)) for each in retrievals])
    save_results(sqlite_db, evaluation.id, [(each, digest("a", each.item_id)) for each in results])
    score_all(sqlite_db, evaluation, results, "quality.refusal_correct", [Outcome.scored(0.0)] * 2)
    finish(sqlite_db, evaluation, {"quality.refusal_correct": 0.0})
    page = client_page(client_contents(sqlite_db, SETTINGS, "acme"))
    assert page.count("the answer declines") == 2
    assert "a stand-in for your system" in page


def test_questions_that_brought_back_other_clients_words_stand_first(sqlite_db: Database) -> None:
    items = make_items(4)
    evaluation = open_run(sqlite_db, make_dataset(sqlite_db, "acme", items), "n1")
    retrievals = list(map(retrieval_of, items))
    leaked = replace((retrievals[2].hits or [])[1], text="", owner="foreign")
    retrievals[2] = replace(retrievals[2], hits=[(retrievals[2].hits or [])[0], leaked])
    results = list(map(result_of, retrievals))
    results[3] = replace(results[3], answer=None, answer_owner="foreign")
    save_retrievals(sqlite_db, evaluation.id, [(each, digest(each.item_id)) for each in retrievals])
    save_results(sqlite_db, evaluation.id, [(each, digest("a", each.item_id)) for each in results])
    score_all(sqlite_db, evaluation, results, MRR, [Outcome.scored(value) for value in (0.2, 0.5, 1.0, 1.0)])
    finish(sqlite_db, evaluation, {MRR: 0.7}, foreign=2)
    client = client_contents(sqlite_db, SETTINGS, "acme")
    assert [row["id"] for row in client.evaluations[0].suffering] == [items[2].item_id, items[3].item_id]
    page = client_page(client)
    assert "Questions that brought back other clients’ words" in page
    assert page.count("another client&#39;s words came back") == 2


def manifest_entry(document: str, chunk: str, first_seen: datetime) -> ManifestEntry:
    return ManifestEntry(
        digest(chunk), chunk, document, None, None, digest(chunk), digest(chunk), None, None, first_seen
    )


def compared(smallest_drop: float | None, n: int = 40, difference: float | None = 0.0) -> MetricComparison:
    return MetricComparison(
        metric_id="retrieval.mrr",
        metric_version="1",
        higher_is_better=True,
        baseline_id=1,
        gated=True,
        n_shared=n,
        baseline_mean=0.8,
        mean=0.8,
        difference=difference,
        ci_low=-0.1,
        ci_high=0.1,
        smallest_drop=smallest_drop,
        decision="passed",
    )


@pytest.mark.parametrize(
    ("drops", "wanted"),
    [
        ([], None),
        ([0.2, 0.25], None),  # what must not go unseen would be seen
        ([0.5], MoreQuestions(0.25, 200, 80, 160)),
        ([0.1, 0.3, 0.5], MoreQuestions(0.25, 200, 80, 160)),
        ([0.2539], MoreQuestions(0.25, 200, 50, 50)),  # more than there are
        ([0.5, None], MoreQuestions(0.25, 200, None, None)),  # from no drop at all nothing can be told
    ],
)
def test_how_many_questions_would_see_a_drop(drops: list[float | None], wanted: MoreQuestions | None) -> None:
    assert more_questions([compared(drop) for drop in drops], 0.25, 200, 40) == wanted


def test_of_questions_that_are_not_shared_or_not_compared_nothing_is_told() -> None:
    assert more_questions([compared(0.2539, n=97)], 0.25, 200, asked=100) == MoreQuestions(0.25, 200, 110, 110)
    assert more_questions([compared(None, difference=None)], 0.25, 200, 40) is None


@pytest.mark.parametrize(("ceiling", "times"), [(0.2, 1), (1.0, 0)])
def test_why_precision_cannot_reach_1_is_said_where_it_cannot(sqlite_db: Database, ceiling: float, times: int) -> None:
    items = items_of("d", 3)
    for report in nights(sqlite_db, items):
        precision = replace(summary("retrieval.precision_at_5", 0.2, n=3), ceiling=ceiling)
        save_summaries(sqlite_db, report.evaluation.id, [precision])
    page = client_page(client_contents(sqlite_db, SETTINGS, "acme"))
    said = "Perfect retrieval would reach a precision@5 of .20, its ceiling: most questions have fewer than 5"
    assert page.count(said) == page.count("its ceiling") == page.count(", at most .20<") == times


def test_a_trend_tells_each_mean_with_its_day_and_of_one_day_with_its_time() -> None:
    first = datetime(2026, 11, 21, 9, 5, tzinfo=UTC)
    by_hours = sparkline([(first, 0.5), (first + timedelta(hours=2), 0.625)], "MRR")
    assert ">MRR: .50 (21 Nov 09:05), .62 (21 Nov 11:05)<" in by_hours
    by_days = sparkline([(first, 0.5), (first + timedelta(days=1), None), (first + timedelta(days=2), 0.6)], "<MRR>")
    assert "&lt;MRR&gt;: .50 (21 Nov), .60 (23 Nov)<" in by_days
    assert sparkline([(first, 0.5), (first, None)], "MRR") == "", "one mean is no trend"


def test_a_trend_falls_where_the_means_fall_and_small_moves_look_small() -> None:
    first = datetime(2026, 11, 21, tzinfo=UTC)

    def heights(*means: float) -> list[float]:
        chart = sparkline([(first + timedelta(days=day), mean) for day, mean in enumerate(means)], "MRR")
        return [float(y) for y in re.findall(r"[\d.]+,([\d.]+)", chart.partition('points="')[2].partition('"')[0])]

    high, low = heights(0.9, 0.5)
    assert 0 < high < low < HEIGHT
    calm = heights(0.81, 0.80)
    assert 0 < calm[1] - calm[0] < 3
    assert heights(1.0, 1.0) == [HEIGHT / 2] * 2


def test_what_did_not_move_is_as_in_the_baseline(sqlite_db: Database) -> None:
    for report in nights(sqlite_db, items_of("d", 3)):
        held(sqlite_db, report, spec=SPEC)
    page = client_page(client_contents(sqlite_db, SETTINGS, "acme"))
    assert "as in the baseline" in page
    assert "+.00" not in page.partition('class="figures')[2].partition("</ul>")[0]


@pytest.mark.parametrize(
    ("stats", "said"),
    [
        (
            {"median_difficulty": 3, "difficulty_measured": 9, "difficulty_depth": 50},
            "for half of the questions, the store returns their own passage among the first 3",
        ),
        (
            {"median_difficulty": 1, "difficulty_measured": 9, "difficulty_depth": 50},
            "for half of the questions, the store returns their own passage first",
        ),
        (
            {"median_difficulty": None, "difficulty_measured": 9, "difficulty_depth": 50},
            "for less than half of the questions, the store returns their own passage among the first 50",
        ),
        ({"median_difficulty": None, "difficulty_measured": 0, "difficulty_depth": 50}, None),
        ({}, None),
    ],
)
def test_difficulty_tells_what_was_not_found_from_what_was_not_measured(
    sqlite_db: Database, stats: dict[str, int | None], said: str | None
) -> None:
    [report] = nights(sqlite_db, items_of("terms.md", 3), count=1)
    save_stats(sqlite_db, report.evaluation.dataset_id, stats)
    held(sqlite_db, report, spec=SPEC)
    page = client_page(client_contents(sqlite_db, SETTINGS, "acme"))
    assert re.findall(r"<li>Difficulty: (.*?)</li>", page) == ([] if said is None else [said])


def test_the_change_since_the_baseline_is_told_night_by_night(sqlite_db: Database) -> None:
    items = make_items(60)
    dataset = make_dataset(sqlite_db, "acme", items)
    for night, wrong, system in (("n1", 0, "v1"), ("n2", 6, "v1"), ("n3", 12, "v2"), ("n4", 24, "v2")):
        report = evaluated(sqlite_db, dataset, night, ranks(items, wrong), items=items, system_version=system)
        [judged] = held(sqlite_db, report)
        if night == "n2":
            accept(sqlite_db, report.evaluation, "Ann <script>")
            [contents] = client_contents(sqlite_db, SETTINGS, "acme").evaluations
            assert [(each.verdict, each.accepted) for each in contents.readings] == [(judged.judgement.verdict, True)]
    [contents] = client_contents(sqlite_db, SETTINGS, "acme").evaluations
    changes = [night.changes[MRR][0] for night in contents.readings]
    assert changes == pytest.approx([-0.1, -0.3]), "since run 2, which was accepted"
    assert [night.released for night in contents.readings] == [True, False]
    page = client_page(client_contents(sqlite_db, SETTINGS, "acme"))
    assert "accepted by Ann &lt;script&gt; on " in page
    assert f"rageval runs accept {contents.evaluation.id}" in page
    assert "−.20</td>" in page, "since the run before"


def test_a_night_on_which_the_system_was_down_is_no_new_version_of_it(sqlite_db: Database) -> None:
    items = make_items(60)
    dataset = make_dataset(sqlite_db, "acme", items)
    half = {**ranks(items), **dict.fromkeys([item.item_id for item in items[:30]])}
    for night, values, declared in (
        ("n1", ranks(items), "1.0"),
        ("n2", half, None),  # what would have said the version failed
        ("n3", ranks(items), "1.0"),
        ("n4", ranks(items), "2.0"),
        ("n5", ranks(items), None),
    ):
        version = f"version {declared}"
        report = evaluated(sqlite_db, dataset, night, values, items=items, declared=declared, system_version=version)
        if None in values.values():
            update_evaluation(sqlite_db, report.evaluation.id, error_count=30)
        held(sqlite_db, report)
    [contents] = client_contents(sqlite_db, SETTINGS, "acme").evaluations
    assert [night.evaluation_id for night in contents.readings if night.released] == [4, 5]
    assert client_page(client_contents(sqlite_db, SETTINGS, "acme")).count("new version of the system") == 2


def test_of_recorded_answers_nobody_says_that_they_were_asked_again(sqlite_db: Database) -> None:
    items = make_items(60)
    dataset = make_dataset(sqlite_db, "acme", items)
    for night, wrong in (("n1", 0), ("n2", 20)):
        held(sqlite_db, evaluated(sqlite_db, dataset, night, ranks(items, wrong), items=items), recorded=["dense"])
    page = client_page(client_contents(sqlite_db, SETTINGS, "acme"))
    assert "20 questions newly failing, in recorded answers: the system cannot be asked again" in page
