"""Question generators: what each is asked for and offers, and which the settings choose, by rule or by a model."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, Self

from rageval_dagster.benchmark.by_rule import generator as by_rule
from rageval_dagster.benchmark.mix import Shares, Task, question_shares
from rageval_dagster.benchmark.related import Related
from rageval_dagster.records import Candidate, Progress
from rageval_dagster.settings import Settings
from rageval_dagster.storage.corpus import document_chunks
from rageval_dagster.storage.database import Database


class Generator(Protocol):
    """Writes question-answer pairs. `name` tells generator, prompt version, model and seed."""

    @property
    def name(self) -> str: ...

    def in_styles(self, styles: Sequence[str]) -> Self:
        """The generator that asks as these persons would, in turns; one by rule asks as it can."""
        ...

    def generate(self, tasks: Sequence[Task], related: Related, progress: Progress | None = None) -> list[Candidate]:
        """One candidate or more for each task; where none could be written, one that says why.

        `related` knows the chunks of the whole sample; `progress` is told the tasks done.
        """
        ...


@dataclass(frozen=True)
class RuleGenerator:
    """The keyless default: questions by rule, answers that are spans of the chunk.

    `language` is that of all chunks; without it, each one's is detected.
    """

    db: Database
    client_id: str
    seed: int
    language: str | None = None

    @property
    def name(self) -> str:
        return by_rule.generator_name(self.seed, self.language)

    def in_styles(self, styles: Sequence[str]) -> Self:
        return self

    def generate(self, tasks: Sequence[Task], related: Related, progress: Progress | None = None) -> list[Candidate]:
        chunks = [task.chunk for task in tasks]
        documents = document_chunks(self.db, self.client_id, {chunk.document_id for chunk in chunks})
        sizes = {document_id: len(entries) for document_id, entries in documents.items()}
        candidates = by_rule.generate(chunks, self.seed, sizes, self.language, related.facts)
        if progress is not None:
            progress(len(tasks), len(tasks))
        return candidates


def load_generator(settings: Settings, db: Database, client_id: str, seed: int, run_id: str | None = None) -> Generator:
    """The prompted generator where RAGEVAL_GENERATOR_MODEL is set, else the one by rule.

    `run_id` is what the model's calls are recorded under.
    """
    if settings.generator_model is None:
        return RuleGenerator(db, client_id, seed, settings.language)
    from rageval_dagster.benchmark.by_model import PromptedGenerator
    from rageval_dagster.llm.client import ChatClient

    return PromptedGenerator(ChatClient(settings, "generator", db, client_id, run_id), seed)


def generator_name(settings: Settings, seed: int) -> str:
    """The name of the generator that the settings choose, without opening it."""
    if settings.generator_model is None:
        return by_rule.generator_name(seed, settings.language)
    from rageval_dagster.benchmark.by_model import prompted_name

    return prompted_name(settings, seed)


def is_alike(one: str, other: str) -> bool:
    """Whether two generators' names differ in nothing but the revision of the rules.

    What earlier rules wrote stays until it makes room like any other question: drawn anew after an upgrade, no question
    would lead back to the baseline.
    """
    plain, plain_other = (by_rule.without_revision(name) for name in (one, other))
    return one == other or (plain is not None and plain == plain_other)


def shares_of(settings: Settings) -> Shares | None:
    """The kinds of questions that the generator is asked for; None where it asks what it can.

    Raises:
        SettingsError: the settings ask for more than one whole.
    """
    return None if settings.generator_model is None else question_shares(settings)
