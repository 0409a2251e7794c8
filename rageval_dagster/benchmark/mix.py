"""Which kinds of questions a generated benchmark has, how many of each, and what a generator is asked for."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil, floor
from typing import Literal, get_args

from rageval_dagster.benchmark.related import Related
from rageval_dagster.errors import SettingsError
from rageval_dagster.identity import digest_json
from rageval_dagster.records import Chunk, Item
from rageval_dagster.settings import Settings
from rageval_dagster.settings.styles import told

Single = Literal["factual_lookup", "entity_specific", "temporal"]
"""What can be asked about one chunk."""
QuestionKind = Literal["factual_lookup", "entity_specific", "temporal", "multi_hop", "unanswerable"]
KINDS: tuple[QuestionKind, ...] = get_args(QuestionKind)
SINGLE: tuple[Single, ...] = get_args(Single)

Shares = Mapping[QuestionKind, float]
"""The share of a benchmark that is of each kind; together 1."""

MOST_TIMES = 2
"""Cap on attempts per question kind, in shares, so that a kind that never succeeds cannot use up the budget."""

MODEL_FAILED = "model_failed"
"""How the reason starts of what failed for the model's sake: the chunk is asked about again another time."""


@dataclass(frozen=True)
class Task:
    """A chunk to ask about. `kind` is what to ask, `attempt` the number of the first draft (those before are there).

    The generator by rule asks what it can, and has one draft.
    """

    chunk: Chunk
    kind: QuestionKind = SINGLE[0]
    attempt: int = 0


def question_shares(settings: Settings) -> Shares:
    """What the settings ask for; the questions about one chunk are of three kinds in equal parts.

    Raises:
        SettingsError: there is more than one whole of them.
    """
    multi_hop, unanswerable = settings.multi_hop_share, settings.unanswerable_share
    if multi_hop + unanswerable > 1:
        raise SettingsError(
            f"RAGEVAL_MULTI_HOP_SHARE ({multi_hop:g}) and RAGEVAL_UNANSWERABLE_SHARE ({unanswerable:g}) add up to "
            "more than 1: lower one of them"
        )
    single = max(1 - multi_hop - unanswerable, 0.0) / len(SINGLE)
    return {**dict.fromkeys(SINGLE, single), "multi_hop": multi_hop, "unanswerable": unanswerable}


def styled_name(generator: str, styles: Sequence[str]) -> str:
    """The name of a generator that asks in styles: it makes other candidates."""
    what = [told(style) for style in styles]
    return f"{generator} styles/{digest_json(what)[:8]}" if any(what) else generator


def kind_of(item: Item) -> QuestionKind:
    """What kind of a question an item is."""
    if not item.answerable:
        return "unanswerable"
    own: list[QuestionKind] = [kind for kind in KINDS if kind == item.category]
    return own[0] if own else SINGLE[0]


def group_of(item: Item) -> str:
    """What a share of a benchmark is kept for: a kind of its own, or `single` for all questions about one chunk."""
    kind = kind_of(item)
    return "single" if kind in SINGLE else kind


def plan(
    chunks: Sequence[Chunk], written: Mapping[QuestionKind, int], shares: Shares, related: Related
) -> list[QuestionKind]:
    """Which kind of question to ask about each chunk: always the one that lacks most of its share.

    `written` counts the questions that there are. A question over two documents is asked only where another document
    has to do with the chunk.
    """
    counts: Counter[QuestionKind] = Counter(written)
    planned: Counter[QuestionKind] = Counter()
    kinds: list[QuestionKind] = []
    for chunk in chunks:
        possible: list[QuestionKind] = [
            kind
            for kind in KINDS
            if planned[kind] < ceil(MOST_TIMES * shares[kind] * len(chunks))
            and (kind != "multi_hop" or related.partners(chunk))
        ]
        total = counts.total() + 1
        kind: QuestionKind = max(possible or SINGLE, key=lambda kind: shares[kind] * total - counts[kind])
        kinds.append(kind)
        counts[kind] += 1
        planned[kind] += 1
    return kinds


def chosen(items: Sequence[Item], size: int, staying: int, shares: Shares) -> list[Item]:
    """The items that make up a dataset of a size, in their order: the first `staying` ones, then by the shares.

    Where a kind has too few, others take their place.
    """
    taken = set(within(items, size, shares, staying)[: max(size, staying)])
    left = [place for place in range(len(items)) if place not in taken]
    return [items[place] for place in sorted([*taken, *left[: max(size - len(taken), 0)]])]


def within(items: Sequence[Item], size: int, shares: Shares, staying: int = 0) -> list[int]:
    """The places of the items that a dataset of a size has room for by the shares, and of the first `staying` ones."""
    room = {kind: floor(shares[kind] * size + 0.5) for kind in ("multi_hop", "unanswerable")}
    room["single"] = size - sum(room.values())
    taken: list[int] = []
    for place, item in enumerate(items):
        group = group_of(item)
        if place < staying or room[group] > 0:
            taken.append(place)
            room[group] -= 1
    return taken
