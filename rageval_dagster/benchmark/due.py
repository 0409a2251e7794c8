"""What a client's generated datasets should be, and when and how far each is renewed."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

from rageval_dagster.benchmark.generators import generator_name, is_alike, shares_of
from rageval_dagster.benchmark.mix import Shares, styled_name
from rageval_dagster.benchmark.sampling import check_strategy
from rageval_dagster.errors import DatasetError, SettingsError
from rageval_dagster.settings import Settings
from rageval_dagster.settings.styles import TAKES, are_styles
from rageval_dagster.storage.benchmark import Dataset, current_datasets, current_datasets_of
from rageval_dagster.storage.clients import Client, get_client, list_clients
from rageval_dagster.storage.database import Database

DEFAULT_NAME = "synthetic"


@dataclass(frozen=True)
class BenchmarkSpec:
    """What a generated dataset should be. `size` questions are drawn at first; with age it grows to `target`.

    `exact` is whether that size was asked for: one that only the settings have makes no dataset smaller, nor changes
    one that was asked for; `styled` is the same of the styles. `every` is whether all generated datasets that the
    client has are meant, see `specs_of`.
    """

    name: str
    size: int
    strategy: str | None
    generator: str
    max_age_days: float
    automatic: bool
    always: bool = False
    seed: int = 0
    language: str | None = None
    embedding_models: tuple[str, ...] = ()
    shares: Shares | None = None
    """Of the kinds of questions; None where the generator asks what it can."""
    styles: tuple[str, ...] = ()
    """Who asks, and how, in turns; see `specs_of`."""
    target: int = 0
    exact: bool = False
    styled: bool = False
    every: bool = False

    @classmethod
    def from_settings(
        cls,
        settings: Settings,
        name: str = "",
        size: int = 0,
        strategy: str = "",
        always: bool = False,
        automatic: bool = True,
        styles: Sequence[str] = (),
    ) -> "BenchmarkSpec":
        """The settings' spec, with what was named for this run; without a name of all generated datasets.

        Args:
            automatic: whether datasets are renewed by themselves, unless the settings forbid that.

        Raises:
            SettingsError: an unknown strategy, styles that are none or that nobody can write in, or shares of questions
                that are together more than 1.
        """
        if strategy:
            check_strategy(strategy)
        if not are_styles(styles):
            raise SettingsError(f"--style takes {TAKES}")
        if styles and settings.generator_model is None:
            raise SettingsError("--style is for questions that a model writes: name one in RAGEVAL_GENERATOR_MODEL")
        # Questions by rule cost nothing: as many as the dataset shall have at last, unless somebody set how many.
        is_set = settings.generator_model is not None or "sample_size" in settings.model_fields_set
        by_default = settings.sample_size if is_set else max(settings.sample_size, settings.target_items)
        return cls(
            name=name or DEFAULT_NAME,
            size=size or by_default,
            strategy=strategy or None,
            generator=generator_name(settings, cls.seed),
            max_age_days=settings.dataset_max_age_days,
            automatic=automatic and settings.auto_generate_datasets,
            always=always,
            language=settings.language,
            embedding_models=(settings.embedding_model, settings.metric_embedding_model),
            shares=shares_of(settings),
            styles=tuple(styles) or settings.question_styles or (),
            styled=bool(styles),
            target=settings.target_items,
            exact=bool(size),
            every=not name,
        )


def specs_of(db: Database, client_id: str, spec: BenchmarkSpec) -> list[BenchmarkSpec]:
    """The spec of each dataset that is meant: all that are generated, or the first one there will be.

    Each has the styles that were asked for, now or when the dataset was drawn, and else those of the settings; where a
    model writes, its generator is the one that asks in them.

    Raises:
        DatasetError: a size or a strategy was asked for, and there are several; or an imported one has the name.
    """
    return _specs(current_datasets(db, client_id), client_id, spec)


def _specs(current: Sequence[Dataset], client_id: str, spec: BenchmarkSpec) -> list[BenchmarkSpec]:
    if not spec.every:
        return [_in_its_styles(current, client_id, spec)]
    names = [each.name for each in current if each.kind == "generated"] or [spec.name]
    if len(names) > 1 and (spec.exact or spec.strategy):
        raise DatasetError(
            f"client {client_id!r} has several generated datasets ({', '.join(names)}): to change the size or the "
            "strategy of one, name it: rageval datasets generate --client NAME --name DATASET"
        )
    return [_in_its_styles(current, client_id, replace(spec, name=name, every=False)) for name in names]


def _in_its_styles(current: Sequence[Dataset], client_id: str, spec: BenchmarkSpec) -> BenchmarkSpec:
    if spec.shares is None:  # by rule
        return spec
    dataset = _generated(current, client_id, spec)
    asked = None if dataset is None or spec.styled else dataset.stats.get("styles_asked")
    styles, styled = (spec.styles, spec.styled) if asked is None else (tuple(asked), True)
    return replace(spec, styles=styles, styled=styled, generator=styled_name(spec.generator, styles))


Extent = Literal["draw", "repair", "rotate"]


@dataclass(frozen=True)
class Renewal:
    """Why a dataset is renewed, how far, and how many questions it then has, if the documents give as many.

    `draw` draws all questions anew, `repair` replaces those whose quote is gone, and `rotate` a few of the others too.
    What a person has verified stays in any case.
    """

    reason: str
    extent: Extent
    size: int


def renewal_due(db: Database, client_id: str, spec: BenchmarkSpec, now: datetime | None = None) -> Renewal | None:
    """The renewal that is due, None if the current dataset will do."""
    dataset = current_dataset(db, client_id, spec)
    corpus = None if dataset is None else get_client(db, client_id).corpus_version
    return _renewal_due(corpus, dataset, spec, now or datetime.now(UTC))


def fresh_clients(db: Database, specs: Mapping[str, BenchmarkSpec], now: datetime | None = None) -> set[str]:
    """The clients, of those with a spec, of which no dataset is due, with the corpus as it was last scanned: none is to
    be renewed, and each was held against this corpus. It takes three queries, however many clients there are.

    One whose datasets cannot be renewed as the spec says is none: its run fails, and says why.
    """
    moment = now or datetime.now(UTC)
    current: dict[str, list[Dataset]] = defaultdict(list)
    for dataset in current_datasets_of(db, specs):
        current[dataset.client_id].append(dataset)
    known = [client for client in list_clients(db) if client.client_id in specs]
    return {
        client.client_id
        for client in known
        if _is_fresh(client, current[client.client_id], specs[client.client_id], moment)
    }


def _is_fresh(client: Client, current: Sequence[Dataset], spec: BenchmarkSpec, now: datetime) -> bool:
    seen = [client.corpus_version, client.index_version]
    if client.corpus_version is None or any(dataset.stats.get("seen") != seen for dataset in current):
        return False
    try:
        meant = _specs(current, client.client_id, spec)
        datasets = [(each, _generated(current, client.client_id, each)) for each in meant]
    except DatasetError:
        return False
    return all(_renewal_due(client.corpus_version, dataset, each, now) is None for each, dataset in datasets)


def _renewal_due(corpus: str | None, dataset: Dataset | None, spec: BenchmarkSpec, now: datetime) -> Renewal | None:
    spec = _with_asked_size(spec, dataset)
    reason = _draw_due(dataset, spec)
    if reason is not None:
        # What was drawn larger by hand, or has grown, becomes smaller by hand only.
        least = 0 if dataset is None or spec.exact else planned_size(dataset)
        return Renewal(reason, "draw", max(spec.size, least))
    if dataset is None or not spec.automatic:
        return None
    # Before the documents: where they change every day, some questions still make room for new ones now and then.
    if now - dataset.renewed_at > timedelta(days=spec.max_age_days):
        reason = f"the dataset is older than {spec.max_age_days:g} days"
        # It grows by no more than a first draw has: that never costs more than a first draw and a fifth.
        grown = min(max(spec.target, spec.size), dataset.qa_count + spec.size)
        return Renewal(reason, "rotate", max(planned_size(dataset), grown))
    if corpus != dataset.stats.get("corpus_version"):
        return Renewal("the documents changed", "repair", planned_size(dataset))
    return None


def _draw_due(dataset: Dataset | None, spec: BenchmarkSpec) -> str | None:
    """Why no question of the dataset will do any more, if so."""
    if spec.always:
        return "asked for"
    if not spec.automatic:
        return None
    if dataset is None:
        return "there is no dataset yet"
    before = planned_size(dataset)
    if spec.size > before or (spec.exact and spec.size != before):
        return f"{spec.size} questions are wanted, {before} were before"
    if spec.strategy not in (None, dataset.stats.get("strategy")):
        return f"the strategy is {spec.strategy} now"
    if not is_alike(spec.generator, dataset.stats.get("generator", "")):
        return "the question generator changed"
    if spec.shares != dataset.stats.get("shares"):
        return "different shares of multi-hop and unanswerable questions are wanted"
    return None


def _with_asked_size(spec: BenchmarkSpec, dataset: Dataset | None) -> BenchmarkSpec:
    """The spec with the size that was asked for, now or when the dataset was drawn: it stays, and does not grow."""
    if dataset is not None and not spec.exact and dataset.stats.get("size_asked"):
        spec = replace(spec, size=dataset.stats["sample_size"], exact=True)
    return replace(spec, target=spec.size) if spec.exact else spec


def size_stats(spec: BenchmarkSpec, dataset: Dataset | None) -> dict[str, Any]:
    """What is noted of the size that the dataset is to have before it grows, and whether somebody asked for it."""
    spec = _with_asked_size(spec, dataset)
    least = 0 if dataset is None or spec.exact else dataset.stats["sample_size"]
    return {"sample_size": max(spec.size, least), "size_asked": spec.exact}


def planned_size(dataset: Dataset) -> int:
    """How many questions the dataset was to have when it was last renewed: what it was drawn with, or grown to."""
    return dataset.stats.get("planned") or dataset.stats["sample_size"]


def current_dataset(db: Database, client_id: str, spec: BenchmarkSpec) -> Dataset | None:
    """The client's generated dataset of the spec's name, as it is now.

    Raises:
        DatasetError: an imported one has the name.
    """
    return _generated(current_datasets(db, client_id), client_id, spec)


def _generated(current: Sequence[Dataset], client_id: str, spec: BenchmarkSpec) -> Dataset | None:
    found = [dataset for dataset in current if dataset.name == spec.name]
    if not found:
        return None
    if found[0].kind == "imported":
        raise DatasetError(f"{spec.name!r} is the name of an imported dataset of {client_id!r}: choose another --name")
    return found[0]
