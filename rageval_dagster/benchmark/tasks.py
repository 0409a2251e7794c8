"""What a question generator is asked for, and what each generator offers."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from rageval_dagster.benchmark.mix import SINGLE, Kind
from rageval_dagster.benchmark.related import Related
from rageval_dagster.records import Candidate, Chunk, Progress

MODEL_FAILED = "model_failed"
"""How the reason starts of what failed for the model's sake: the chunk is asked about again another time."""


@dataclass(frozen=True)
class Task:
    """A chunk to ask about. `kind` is what to ask, `attempt` the number of the first draft (those before are there).

    The generator by rule asks what it can, and has one draft.
    """

    chunk: Chunk
    kind: Kind = SINGLE[0]
    attempt: int = 0


class Generator(Protocol):
    """Writes question-answer pairs. `name` tells generator, prompt version, model and seed."""

    @property
    def name(self) -> str: ...

    def generate(self, tasks: Sequence[Task], related: Related, progress: Progress | None = None) -> list[Candidate]:
        """One candidate or more for each task; where none could be written, one that says why.

        `related` knows the chunks of the whole sample; `progress` is told the tasks done.
        """
        ...
