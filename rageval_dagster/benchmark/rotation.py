"""Which questions of a generated dataset stay when it is renewed, which retire, and which make room for new ones."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from rageval_dagster.benchmark.critics import was_turned_down
from rageval_dagster.benchmark.due import BenchmarkSpec, Renewal
from rageval_dagster.benchmark.generators import is_alike
from rageval_dagster.benchmark.mix import Shares, chosen, group_of
from rageval_dagster.benchmark.review import is_settled
from rageval_dagster.corpus.evidence import Resolution, resolve
from rageval_dagster.records import Candidate, Chunk, Item
from rageval_dagster.storage import benchmark as benchmark_storage
from rageval_dagster.storage.benchmark import Dataset
from rageval_dagster.storage.database import Database

if TYPE_CHECKING:
    from rageval_dagster.corpus.store import ChromaStore

CHANGED_PART = 5
"""One question of so many changes at most when a dataset is renewed for its age, unless more have lost their quote."""
LEAST_ANCHORS = 30
"""The first so many questions, or a fifth of those of a larger dataset, never make room: they link all its versions."""


@dataclass(frozen=True)
class Panel:
    """A dataset's questions at a renewal, those that have been in it longest first.

    `verified` are the items that a person has verified: they stay. `standing` are the candidates of the others that
    can stay, their quotes being there; those of `retiring` are gone. `leaving` are the standing items' ids in the order
    in which they make room, without the anchors; none do in a repair. `present` are the ids of all items that the
    dataset has.
    """

    verified: Sequence[Item] = ()
    standing: Sequence[Candidate] = ()
    retiring: Sequence[Candidate] = ()
    leaving: Sequence[str] = ()
    present: frozenset[str] = frozenset()

    @property
    def staying(self) -> list[Item]:
        """The items that can stay."""
        return [*self.verified, *items_of(self.standing)]

    def rotating(self, staying: int) -> int:
        """How many make room where so many could stay: with those that cannot, no more than a fifth of all."""
        return max(len(self.present) // CHANGED_PART - (len(self.present) - staying), 0) if self.leaving else 0

    def not_drawn(self, renewal: Renewal) -> frozenset[str]:
        """The ids of the items that are not drawn as new ones: those that are there, or stay whatever is drawn."""
        return frozenset(item.item_id for item in self.verified) if renewal.extent == "draw" else self.present

    def remaining(self) -> list[Item]:
        """The items that are left when as many as may have made room."""
        staying = self.staying
        leaving = set(self.leaving[: self.rotating(len(staying))])
        return [item for item in staying if item.item_id not in leaving]


def panel_of(
    db: Database,
    store: "ChromaStore",
    client_id: str,
    dataset: Dataset | None,
    spec: BenchmarkSpec,
    renewal: Renewal,
    sampled: Sequence[Chunk] = (),
) -> Panel:
    """What becomes of the dataset's questions in a renewal; where all are drawn anew, only verified ones stay.

    `sampled` are the chunks of the strategy's new sample: a question about none of them makes room first.

    Raises:
        StoreError: the store does not answer or does not know the client.
    """
    if dataset is None:
        return Panel()
    items = benchmark_storage.dataset_items(db, dataset.id)
    verified = [item for item in items if item.human_verified]
    verified_ids = {item.item_id for item in verified}
    candidates: dict[str, list[Candidate]] = defaultdict(list)
    for candidate in benchmark_storage.list_candidates(db, client_id):
        if not is_alike(candidate.generator, spec.generator):
            continue
        if candidate.item and may_be_drawn(candidate, verified_ids):
            candidates[candidate.item.item_id].append(candidate)
    resolutions = resolve(items, db, store, client_id)
    own = [item for item in items if item.item_id in candidates]
    standing = [(each, candidates[each.item_id][0]) for each in own if not resolutions[each.item_id].unresolved]
    gone = [candidates[item.item_id] for item in own if resolutions[item.item_id].unresolved]
    # Those that a person has verified stay anyhow.
    anchors = max(LEAST_ANCHORS, len(items) // CHANGED_PART) - len(verified)
    return Panel(
        verified=verified,
        standing=[candidate for _, candidate in standing] if renewal.extent != "draw" else (),
        retiring=[candidate for found in gone for candidate in found],
        leaving=_in_turn(standing[max(anchors, 0) :], resolutions, sampled) if renewal.extent == "rotate" else (),
        present=frozenset(item.item_id for item in items),
    )


def _in_turn(
    standing: Sequence[tuple[Item, Candidate]], resolutions: Mapping[str, Resolution], sampled: Sequence[Chunk]
) -> list[str]:
    """The items' ids in the order in which they make room: those that the sample does not hold first, then the rest."""
    chunk_ids = {chunk.id for chunk in sampled}
    content_keys = {chunk.content_key for chunk in sampled}

    def is_held(item: Item, candidate: Candidate) -> bool:
        # By the quote, since the chunk around it may have been cut or written anew.
        return candidate.chunk_key in content_keys or bool(chunk_ids & (resolutions[item.item_id].chunks or set()))

    ordered = sorted(standing, key=lambda pair: is_held(*pair))
    return [item.item_id for item, _ in ordered]


def may_be_drawn(candidate: Candidate, but: Collection[str] = ()) -> bool:
    """Whether a candidate may become an item of a dataset, unless its item is one of `but`."""
    return (
        candidate.item is not None
        and candidate.item.item_id not in but
        and not is_settled(candidate)
        and not was_turned_down(candidate)
    )


def revived(db: Database, store: "ChromaStore", client_id: str, candidates: Sequence[Candidate]) -> list[Candidate]:
    """The candidates without the retired ones, unless their quotes are back: those are candidates again."""
    retired = [candidate.item for candidate in candidates if candidate.status == "retired" and candidate.item]
    resolutions = resolve(retired, db, store, client_id) if retired else {}
    back = {item_id for item_id, resolution in resolutions.items() if not resolution.unresolved}
    return [
        replace(candidate, status="new", reasons=()) if candidate.status == "retired" else candidate
        for candidate in candidates
        if candidate.status != "retired" or (candidate.item and candidate.item.item_id in back)
    ]


def renewed(items: Sequence[Item], staying: int, panel: Panel, size: int, shares: Shares | None) -> list[Item]:
    """The items of the renewed dataset: the first `staying` ones but those that make room, then new ones.

    New ones fill the dataset up first. With those that are left over others are replaced, each by one of its kind where
    there are shares; so it never shrinks for want of new ones.

    Args:
        items: those that stay, then the new ones, the best first.
        size: how many there shall be; more where more stay.
        shares: of the kinds of questions, which the new ones keep as well as they can.
    """
    filled = items[: max(size, staying)] if shares is None else chosen(items, size, staying, shares)
    taken = {item.item_id for item in filled}
    spare: dict[str, list[Item]] = defaultdict(list)
    for item in items:
        if item.item_id not in taken:
            spare[_group(item, shares)].append(item)
    by_id = {item.item_id: item for item in items[:staying]}
    left: set[str] = set()
    new: list[Item] = []
    for item_id in panel.leaving:
        if len(left) == panel.rotating(staying):
            break
        replacements = spare[_group(by_id[item_id], shares)] if item_id in by_id else []
        if replacements:
            left.add(item_id)
            new.append(replacements.pop(0))
    return [*(item for item in filled if item.item_id not in left), *new]


def _group(item: Item, shares: Shares | None) -> str:
    return "" if shares is None else group_of(item)


def items_of(candidates: Iterable[Candidate]) -> list[Item]:
    return [candidate.item for candidate in candidates if candidate.item]
