"""`evaluate` as users of ragas call it, by this project's metrics; ragas itself is not needed.

from rageval_dagster.ragas import evaluate

result = evaluate(rows, metrics=["faithfulness", "context_recall"], llm="gpt-5")
result.to_pandas()
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import isnan
from statistics import fmean
from typing import TYPE_CHECKING, Any

from rageval_dagster.errors import DatasetError, RagevalError, SettingsError
from rageval_dagster.recorded.scoring import scored

if TYPE_CHECKING:
    import pandas as pd

    from rageval_dagster.records import Outcome

METRICS: Mapping[str, str] = {
    "faithfulness": "claims.faithfulness",
    "answer_relevancy": "claims.answer_relevancy",
    "response_relevancy": "claims.answer_relevancy",
    "context_precision": "claims.context_precision",
    "llm_context_precision_with_reference": "claims.context_precision",
    "context_recall": "claims.context_recall",
    "answer_correctness": "claims.answer_correctness",
    "factual_correctness": "claims.answer_correctness",
    "semantic_similarity": "embedding.answer_correctness",
    "answer_similarity": "embedding.answer_correctness",
    "exact_match": "lexical.exact_match",
}
"""ragas' names of metrics, and the metric that stands in for each. Any other metric of this project goes by its id."""

DEFAULT_METRICS = ("answer_relevancy", "context_precision", "faithfulness", "context_recall")
"""ragas' own."""

_COLUMNS = ("user_input", "retrieved_contexts", "response", "reference")
_OLD_COLUMNS = {
    "question": "user_input",
    "contexts": "retrieved_contexts",
    "answer": "response",
    "ground_truth": "reference",
}


@dataclass(frozen=True, repr=False)
class EvaluationResult:
    """Scores by the names that were asked for.

    `scores` has a row for each sample, in [0, 1], None where there is no score; `reasons` says for these why, by sample
    number (from 0) and metric. `result["faithfulness"]` are a metric's scores; printed, it shows the means of what was
    scored.
    """

    samples: Sequence[Mapping[str, Any]]
    outcomes: "Mapping[str, Sequence[Outcome]]"

    @property
    def scores(self) -> list[dict[str, float | None]]:
        return [{name: self[name][number] for name in self.outcomes} for number in range(len(self.samples))]

    @property
    def reasons(self) -> dict[int, dict[str, str]]:
        found: dict[int, dict[str, str]] = {}
        for name, column in self.outcomes.items():
            for number, outcome in enumerate(column):
                if outcome.value is None:
                    found.setdefault(number, {})[name] = f"{outcome.status}: {outcome.reason}"
        return found

    def __getitem__(self, name: str) -> list[float | None]:
        return [outcome.value for outcome in self.outcomes[name]]

    def __repr__(self) -> str:
        known = {name: [value for value in self[name] if value is not None] for name in self.outcomes}
        return str({name: round(fmean(values), 4) if values else None for name, values in known.items()})

    def to_pandas(self) -> "pd.DataFrame":
        """A row a sample: its fields, then a column a metric, NaN where there is no score."""
        import pandas as pd

        scores = pd.DataFrame({name: self[name] for name in self.outcomes}, dtype=float)
        return pd.concat([pd.DataFrame(list(self.samples)), scores], axis=1)


def evaluate(
    dataset: Iterable[Any],
    metrics: Sequence[Any] | None = None,
    llm: str | None = None,
    embeddings: str | None = None,
    *,
    column_map: Mapping[str, str] | None = None,
    raise_exceptions: bool = False,
    show_progress: bool = True,
) -> EvaluationResult:
    """Scores single-turn samples.

    Args:
        dataset: mappings or objects with `user_input`, `response`, `retrieved_contexts` and `reference`, or with the
            older names `question`, `answer`, `contexts` and `ground_truth`: a list, ragas' EvaluationDataset, a dataset
            of the Hugging Face hub, or a pandas DataFrame.
        metrics: ragas' names (see METRICS), objects with such a `name`, or ids of this project's metrics. Default:
            DEFAULT_METRICS.
        llm: the judge model's name at the endpoint of OPENAI_BASE_URL; default: RAGEVAL_JUDGE_MODEL.
        embeddings: the metrics' embedding model; default: RAGEVAL_METRIC_EMBEDDING_MODEL.
        column_map: {a field: what the dataset calls it}.
        raise_exceptions: raise the first error of a metric in place of giving None for it.
        show_progress: is passed over: no progress is shown.

    Raises:
        TypeError: `llm` or `embeddings` is no name.
        DatasetError: there is no sample, or a field of one is wrong.
        SettingsError: there is no such metric, or no judge model.
        RagevalError: with `raise_exceptions`, a metric failed on a sample.
        LanguageModelError: the judge's endpoint refuses or does not answer.
    """
    for name, model in (("llm", llm), ("embeddings", embeddings)):
        if model is not None and not isinstance(model, str):
            raise TypeError(f"{name} takes a model's name, not {type(model).__name__}: its endpoint is OPENAI_BASE_URL")
    names = [each if isinstance(each, str) else str(each.name) for each in metrics or DEFAULT_METRICS]
    ids = {name: METRICS.get(name, name) for name in names}
    if unknown := [name for name, metric_id in ids.items() if "." not in metric_id]:
        raise SettingsError(f"metrics: {unknown[0]!r} is none of {', '.join(METRICS)}, nor a metric's id")
    samples = [_sample(row, column_map or {}) for row in _rows(dataset)]
    rows = [{"response": None, **sample, "id": number} for number, sample in enumerate(samples)]
    _, _, outcomes = scored(rows, list(dict.fromkeys(ids.values())), model=embeddings, judge_model=llm)
    columns = {name: list(outcomes[metric_id].values()) for name, metric_id in ids.items()}
    if raise_exceptions:
        for name, column in columns.items():
            for number, outcome in enumerate(column):
                if outcome.status == "error":
                    raise RagevalError(f"sample {number}: {name}: {outcome.reason}")
    return EvaluationResult(samples, columns)


def _rows(dataset: Any) -> Iterable[Any]:
    return dataset.to_dict(orient="records") if hasattr(dataset, "iterrows") else dataset


def _sample(row: Any, column_map: Mapping[str, str]) -> dict[str, Any]:
    """The fields of a row that have a value, by ragas' names of today."""
    value_of = row.get if isinstance(row, Mapping) else lambda name: getattr(row, name, None)
    sample: dict[str, Any] = {}
    for name in _COLUMNS:
        others = [column_map.get(name, name), *(old for old, new in _OLD_COLUMNS.items() if new == name)]
        value: Any = next((value for other in others if not _is_missing(value := value_of(other))), None)
        if value is not None:
            sample[name] = list(value) if name == "retrieved_contexts" and not isinstance(value, str) else value
    if not sample:
        raise DatasetError(f"a sample has none of the fields {', '.join(_COLUMNS)}")
    return sample


def _is_missing(value: Any) -> bool:
    """A DataFrame has NaN where it has no value."""
    return value is None or (isinstance(value, float) and isnan(value))
