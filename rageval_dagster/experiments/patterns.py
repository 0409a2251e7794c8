"""Experiments as ai4rag writes them: documents and a benchmark go in, the best pattern comes out.

Everything else is made for the length of the search, in a folder of its own: no RAGEVAL_HOME is touched.
"""

import json
import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from rageval_dagster.benchmark.importing import import_dataset
from rageval_dagster.corpus.ingest import ingest
from rageval_dagster.corpus.store import open_store
from rageval_dagster.errors import SettingsError
from rageval_dagster.experiments.copies import WithoutVectors
from rageval_dagster.experiments.opening import checked, opened, prepare
from rageval_dagster.experiments.results import write_results
from rageval_dagster.experiments.standing import advance, standing
from rageval_dagster.experiments.trial import run_trial
from rageval_dagster.settings import load_settings
from rageval_dagster.storage.database import open_database
from rageval_dagster.storage.experiments import get_experiment

_CLIENT = "experiment"
_PLACES = ("RAGEVAL_CONFIG", "RAGEVAL_DATABASE_URL", "RAGEVAL_CHROMA_URL", "RAGEVAL_CHROMA_PATH", "DAGSTER_HOME")
_OURS = {"foundation_model": "answer_model"}


class MetricType(StrEnum):
    """What an experiment may optimise."""

    FAITHFULNESS = "faithfulness"
    ANSWER_CORRECTNESS = "answer_correctness"
    CONTEXT_CORRECTNESS = "context_correctness"


@dataclass(frozen=True)
class Parameter:
    """A parameter of a RAG system and the values to try. Models are named, or are objects with a `model_id`.

    Raises SettingsError for another type than "C" (categorical), and for no values.
    """

    name: str
    param_type: str = "C"
    values: Sequence[Any] = ()

    def __post_init__(self) -> None:
        if self.param_type != "C":
            raise SettingsError(
                f"parameter {self.name!r} is of type {self.param_type!r}; only 'C' (categorical) is known"
            )
        if not self.values:
            raise SettingsError(f"parameter {self.name!r} has no values to try")


@dataclass(frozen=True)
class SearchSpace:
    """All combinations of the values of these parameters."""

    params: Sequence[Parameter]


@dataclass(frozen=True)
class Pattern:
    """A configuration and how good it was: `scores["scores"][metric]` has mean, ci_low and ci_high.

    `scores["question_scores"][metric]` has the score of each question, None where it has none.
    """

    name: str
    configuration: Mapping[str, Any]
    scores: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Experiment:
    """A search for the best pattern, by the built-in system and any OpenAI-compatible endpoint.

    Args:
        documents: a folder or file, or documents with `page_content` and `metadata["document_id"]`.
        benchmark_data: a JSON file, or its rows: `question`, `correct_answers`, `correct_answer_document_ids`.
        search_space: of foundation_model, embedding_model, chunk_size, chunk_overlap, number_of_chunks, retriever.
        objective_metric: what is optimised.
        max_evals: the questions asked are at most those of so many patterns.
        n_random_nodes: taken as ai4rag takes it; the search spreads its own first patterns over the space.
        output_path: a folder for a JSON file a pattern; None: nothing is written.

    Models answer at OPENAI_BASE_URL with OPENAI_API_KEY, as the settings have them.
    """

    documents: Path | str | Sequence[Any]
    benchmark_data: Path | str | Sequence[Mapping[str, Any]]
    search_space: SearchSpace
    objective_metric: MetricType = MetricType.FAITHFULNESS
    max_evals: int = 8
    n_random_nodes: int = 3
    output_path: Path | str | None = None
    seed: int = 0

    def search(self) -> Pattern:
        """Asks, scores and chooses; gives the recommended pattern.

        Raises:
            RagevalError: something of the above cannot be used, or no pattern could be scored: what, and why.
        """
        with tempfile.TemporaryDirectory(prefix="rageval-experiment-") as folder:
            return self._search(Path(folder))

    def _search(self, folder: Path) -> Pattern:
        # Endpoints and models are the user's own; where things are kept is not.
        elsewhere = {"RAGEVAL_HOME": str(folder / "home"), **dict.fromkeys(_PLACES, "")}
        settings = load_settings({**os.environ, **elsewhere}, folder / ".env", _written(folder / "rageval.toml", ""))
        documents, benchmark = self._documents(folder), self._benchmark(folder)
        settings.ensure_home()
        db = open_database(settings.database_url.get_secret_value())
        store = open_store(settings)
        ingest(documents, _CLIENT, store, WithoutVectors())
        imported = import_dataset(db, _CLIENT, "benchmark", benchmark, "ai4rag", store=store)
        parameters = {
            _OURS.get(each.name, each.name): list(map(_named, each.values)) for each in self.search_space.params
        }
        tables = {
            "experiment": {
                "client": _CLIENT,
                "documents": str(documents),
                "objective": f"overlap.{MetricType(self.objective_metric).value}",
                "budget": {"answers": max(1, self.max_evals) * imported.dataset.qa_count},
                "seed": self.seed,
            },
            "parameters": {"chunk_size": [800], **parameters},
        }
        number = opened(db, settings, checked(db, settings, tables, "search_space"), "command").number
        prepare(db, settings, get_experiment(db, number))
        while batches := advance(db, settings, get_experiment(db, number)).batches:
            for batch in batches:
                run_trial(db, settings, get_experiment(db, number), batch.configuration, batch.questions)
        now = standing(db, get_experiment(db, number))
        results = write_results(settings, db, now)
        if now.recommended is None:
            raise SettingsError(f"no pattern could be scored: {now.experiment.ended_why}")
        best = json.loads((results / f"configuration-{now.recommended}.json").read_text(encoding="utf-8"))
        if self.output_path is not None:
            shutil.copytree(results, self.output_path, dirs_exist_ok=True)
        scores = {name: best[name] for name in ("scores", "question_scores")}
        theirs: dict[str, str] = {ours: name for name, ours in _OURS.items()}
        configuration = {theirs.get(str(name), str(name)): value for name, value in best["configuration"].items()}
        return Pattern(best["name"], configuration, scores)

    def _documents(self, folder: Path) -> Path:
        if isinstance(self.documents, Path | str):
            return Path(self.documents).resolve()
        rows = []
        for number, each in enumerate(self.documents):
            text, about = getattr(each, "page_content", None), getattr(each, "metadata", None) or {}
            if isinstance(each, Mapping):
                text, about = each.get("page_content"), each.get("metadata") or {}
            if not isinstance(text, str) or "document_id" not in about:
                raise SettingsError(f"document {number} needs a text, page_content, and metadata['document_id']")
            rows.append({"id": str(about["document_id"]), "text": text})
        return _written(folder / "documents.jsonl", "".join(json.dumps(row) + "\n" for row in rows))

    def _benchmark(self, folder: Path) -> Path:
        if isinstance(self.benchmark_data, Path | str):
            return Path(self.benchmark_data).resolve()
        return _written(folder / "benchmark.json", json.dumps(list(self.benchmark_data)))


def _named(value: Any) -> Any:
    return getattr(value, "model_id", value)


def _written(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path
