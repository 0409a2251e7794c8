"""The questions of an evaluation for the report: what was asked, expected, retrieved and answered, every score, and
whether retrieval or the answering side is to be mended."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from rageval_dagster.evaluation.rightness import is_right, rightness_of
from rageval_dagster.evaluation.summary import EvaluationReport
from rageval_dagster.gate.comparison import Pair, side_by_side
from rageval_dagster.gate.decision import Judged
from rageval_dagster.languages.detection import detect
from rageval_dagster.metrics.cited_answers import CitedResult
from rageval_dagster.records import Hit, Item, Outcome, Result
from rageval_dagster.storage import results as result_storage
from rageval_dagster.storage import scores as score_storage
from rageval_dagster.storage.corpus import document_names
from rageval_dagster.storage.database import Database
from rageval_dagster.storage.evaluations import evaluations_by_id

LONGEST_TEXT = 4_000
"""Characters of a text that are shown; what is cut says so."""

WORST, MOST_CHANGED = 200, 100
"""Questions whose contexts stand in the report; of others the command that shows them does."""

MANY = 1_000
"""Of more questions than that, a judge's reasons stand where the contexts do: they are most of what a file holds."""

MOST_REASONS = 12
"""Of what a judge objects to in one answer."""

Quadrant = Literal["found_right", "found_wrong", "missed_right", "missed_wrong"]

QUADRANTS: Mapping[Quadrant, tuple[str, str]] = {
    "found_right": ("Found, answered right", "As it should be"),
    "found_wrong": ("Found, answered wrong", "The answering side: model, prompt, how contexts are given"),
    "missed_wrong": ("Not found, answered wrong", "Retrieval: the passage with the answer did not come back"),
    "missed_right": ("Not found, answered right", "From memory, from another passage, or by chance"),
}
"""What each is called, and what it points to."""


@dataclass
class Texts:
    """Texts that stand in the report once each, by number."""

    texts: list[str] = field(default_factory=list)
    _known: dict[str, int] = field(default_factory=dict)

    def add(self, text: str) -> int:
        shown = cut(text)
        if shown not in self._known:
            self._known[shown] = len(self.texts)
            self.texts.append(shown)
        return self._known[shown]


@dataclass(frozen=True)
class Questions:
    """What the page's questions are made of: `rows` for the script of the page, and what the page itself counts.

    `pair` is the comparison with the baseline, None where there is none; `names` is what people call the documents, by
    id.
    """

    rows: list[dict[str, Any]]
    texts: list[str]
    quadrants: list[Quadrant | None]
    outcomes: Mapping[str, Mapping[str, Outcome]]
    results: Mapping[str, Result]
    pair: Pair | None
    names: Mapping[str, str]


def cut(text: str) -> str:
    """The text, or its beginning and how much was cut."""
    if len(text) <= LONGEST_TEXT:
        return text
    return f"{text[:LONGEST_TEXT]}… ({len(text) - LONGEST_TEXT:,} more characters)"


def questions_of(
    db: Database, report: EvaluationReport, judged: Judged, metric_ids: Sequence[str], redact: bool = False
) -> Questions:
    """All questions of an evaluation, in the order of the dataset; with `redact` ids and numbers only.

    Questions whose texts were deleted keep their ids and scores.
    """
    evaluation = report.evaluation
    results = result_storage.results_by_item(db, evaluation.id)
    versions = {name: each.metric_version for name, each in report.summaries.items()}
    outcomes = score_storage.load_scores(db, evaluation.id, versions)
    item_ids = list(dict.fromkeys([*results, *(row.item_id for row in result_storage.run_items(db, evaluation.id))]))
    by_item = {
        item_id: {name: column[item_id] for name, column in outcomes.items() if item_id in column}
        for item_id in item_ids
    }
    kept = evaluations_by_id(db, filter(None, [judged.judgement.baseline_id]))
    pair = next((side_by_side(db, baseline, evaluation) for baseline in kept.values()), None)
    before = pair.results(db)[0] if pair is not None else {}
    falls = _falls(pair, judged)
    changed = sorted(falls, key=lambda item_id: (-abs(falls[item_id]), item_id))
    told = {*report.by_badness[:WORST], *changed[:MOST_CHANGED]}
    rightness = rightness_of(report.summaries)
    hit_rate = f"{report.prefix}hit_rate_at_{evaluation.k}"
    texts = Texts()
    cited = {name for result in results.values() for name in result.item.document_ids}
    cited |= {hit.document_id for item_id in told if item_id in results for hit in results[item_id].hits}
    names = {} if redact else document_names(db, evaluation.client_id, cited)
    rows: list[dict[str, Any]] = []
    quadrants: list[Quadrant | None] = []
    newly_failing = set(judged.judgement.newly_failing)
    for item_id in item_ids:
        scores = by_item[item_id]
        place = quadrant(scores.get(hit_rate), is_right(scores, rightness))
        quadrants.append(place)
        row: dict[str, Any] = {
            "id": item_id,
            "s": [
                None if (each := scores.get(name)) is None or each.value is None else round(each.value, 4)
                for name in metric_ids
            ],
            "w": {
                str(number): texts.add(f"{outcome.status}: {outcome.reason}")
                if outcome.reason and not redact
                else outcome.status
                for number, name in enumerate(metric_ids)
                if (outcome := scores.get(name)) is not None and outcome.status != "scored"
            },
        }
        row |= _known(t=place, n=item_id in newly_failing, d=round(falls.get(item_id, 0.0), 4))
        result = results.get(item_id)
        if result is not None:
            row |= _numbers(result, before.get(item_id))
            if not redact:
                row |= _words(result, before.get(item_id), names)
                if item_id in told or len(item_ids) <= MANY:
                    row |= _reasons(scores, metric_ids)
                if item_id in told:
                    row["h"] = _hits(result, texts, names)
        rows.append(row)
    return Questions(rows, texts.texts, quadrants, outcomes, results, pair, names)


def quadrant(found: Outcome | None, right: bool | None) -> Quadrant | None:
    """Where a question belongs; None where its evidence, or its answer, is not known to be found, or right.

    `found` is its hit rate at the evaluation's cutoff.
    """
    if found is None or found.value is None or right is None:
        return None
    if found.value > 0:
        return "found_right" if right else "found_wrong"
    return "missed_right" if right else "missed_wrong"


def language_of(item: Item) -> str:
    """The language of a question, or that it cannot be told."""
    return detect(item.question) or "not told"


def rank_of(result: Result) -> int | None:
    """The rank of the first piece of evidence; None where none came back."""
    return min((hit.rank for hit in result.hits if result.is_relevant(hit)), default=None)


def _falls(pair: Pair | None, judged: Judged) -> dict[str, float]:
    """By how much each question got worse (above 0) or better in the metrics that decide, all together."""
    found: dict[str, float] = {}
    for row in (*judged.gated, *judged.changed_answers):
        scores = pair.scores.get(row.metric_id) if pair is not None else None
        if scores is None or not scores.is_comparable:
            continue
        sign = 1.0 if row.higher_is_better else -1.0
        for item_id, value in scores.before.items():
            now = scores.now.get(item_id)
            if value is not None and now is not None and value != now:
                found[item_id] = found.get(item_id, 0.0) + sign * (value - now)
    return found


def _numbers(result: Result, before: Result | None) -> dict[str, Any]:
    """What is no text: the evidence's rank now and before; whether it failed, declined, leaked, or can be answered."""
    declined = result.answer is not None and result.answer.declined
    ranks = {"k": rank_of(result)} if before is None else {"k": rank_of(result), "kb": rank_of(before)}
    leaked = "foreign" in (result.answer_owner, *(hit.owner for hit in result.hits))
    return ranks | _known(f=result.error is not None, u=not result.item.answerable, x=declined, lk=leaked)


def _known(**fields: Any) -> dict[str, Any]:
    """The fields that say something."""
    return {name: 1 if value is True else value for name, value in fields.items() if value}


def _words(result: Result, before: Result | None, names: Mapping[str, str]) -> dict[str, Any]:
    item = result.item
    found: dict[str, Any] = {
        "q": cut(item.question),
        "c": item.category,
        "o": item.origin,
        "v": int(item.human_verified),
        "e": [cut(answer) for answer in item.answers],
        "ev": sorted(names[document_id] for document_id in item.document_ids),
        "l": language_of(item),
    }
    if result.error is not None:
        found["er"] = cut(result.error)
    if result.answer is not None:
        found["a"] = cut(result.answer.text)
    elif result.texts_deleted:
        found["gone"] = 1
    if before is not None and before.answer is not None:
        found["ab"] = None if before.answer == result.answer else cut(before.answer.text)
    if before is not None and before.hits != result.hits:
        was, now = (_evidence_ranks(result, hits) for hits in (before.hits, result.hits))
        found["m"] = [[name, was.get(name), rank] for name, rank in now.items()] + [
            [name, rank, None] for name, rank in was.items() if name not in now
        ]
    return found


def _evidence_ranks(result: Result, hits: Iterable[Hit]) -> dict[str, int]:
    """Where each chunk with evidence, or wanted page, came first."""
    ranks: dict[str, int] = {}
    for hit in hits:
        if (name := result.found_as(hit)) in (result.relevant_chunks or ()):
            ranks.setdefault(name, hit.rank)
    return ranks


def _reasons(scores: Mapping[str, Outcome], metric_ids: Sequence[str]) -> dict[str, Any]:
    """What a judge, or a check, said of the answer, by the metric's number."""
    found = {
        str(number): said
        for number, name in enumerate(metric_ids)
        if (outcome := scores.get(name)) is not None and outcome.detail and (said := said_in(outcome.detail))
    }
    return {"j": found} if found else {}


def said_in(detail: Mapping[str, Any]) -> list[str]:
    """The reasoning, and each entry of the lists beside it, as lines."""
    lines = [cut(str(detail["reasoning"]))] if detail.get("reasoning") else []
    for name, value in detail.items():
        for entry in value if isinstance(value, list) else ():
            if isinstance(entry, str):
                lines.append(cut(f"{name.replace('_', ' ')}: {entry}"))
            elif isinstance(entry, Mapping):
                told = ", ".join(
                    f"{key.replace('_', ' ')}: {value}" for key, value in entry.items() if value is not None
                )
                lines.append(cut(told))
    return lines[:MOST_REASONS]


def _hits(result: Result, texts: Texts, names: Mapping[str, str]) -> list[list[Any]]:
    """Of each passage: number of its text, document, chunk, page, rank, whether it holds evidence, is cited, was seen.

    A passage of another client is named, never shown.
    """
    cited = set(CitedResult(result).cited_places) if result.answer is not None and all(result.contexts) else set()
    return [
        [
            texts.add(hit.text) if hit.text else None,
            names[hit.document_id],
            hit.chunk_id,
            hit.page,
            hit.rank,
            int(result.is_relevant(hit)),
            int(place in cited),
            int(place < len(result.contexts)),
        ]
        for place, hit in enumerate(result.hits)
    ]
