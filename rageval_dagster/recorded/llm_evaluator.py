"""Seed 002's Python interface to the judge: `LLMEvaluator` with its six methods, and the `LLMClient` that it asks."""

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import SecretStr, ValidationError

from rageval_dagster.errors import DatasetError, SettingsError
from rageval_dagster.llm.client import ChatClient
from rageval_dagster.llm.endpoints import DEFAULT_BASE_URL
from rageval_dagster.metrics import judge
from rageval_dagster.metrics.interface import Tools
from rageval_dagster.metrics.judge_model import judge_scores
from rageval_dagster.metrics.registry import options_of
from rageval_dagster.recorded.formats import OutputOptions, outputs_of
from rageval_dagster.recorded.judging import answer_shape, dimension_shape
from rageval_dagster.recorded.scoring import FILES_CLIENT, redacted_outputs
from rageval_dagster.records import Outcome, Result
from rageval_dagster.settings import JudgeWeights, load_settings

PROVIDERS = ("openai", "llama.cpp", "lmstudio", "ollama", "openrouter", "vllm")
"""Whose endpoints speak OpenAI's API, and are spoken to alike."""

Chunk = str | Mapping[str, Any]
"""A retrieved chunk: its text, or a mapping with `text` and, where known, `doc_id`, `chunk_id` and `page`."""

_NAMES = {"text": "text", "doc_id": "document_id", "document_id": "document_id", "chunk_id": "chunk_id", "page": "page"}


class LLMClient:
    """A chat model to judge with. All else (timeouts, limits, prompts, redaction) is what the settings say.

    Args:
        api_key: of this endpoint; None for one that needs none. No key is taken from the environment.
        base_url: of an API that speaks as OpenAI's does, often ending in /v1; None: OpenAI's own.
        model: its name there.
        provider: one of `PROVIDERS`.

    Raises:
        SettingsError: another provider is named; or what models may cost is limited, and the model has no price.
    """

    def __init__(self, api_key: str | None, base_url: str | None, model: str, provider: str = "openai") -> None:
        if provider not in PROVIDERS:
            raise SettingsError(
                f"there is no provider {provider!r}: an endpoint that speaks OpenAI's API is 'openai', whoever runs it "
                f"(known: {', '.join(PROVIDERS)})"
            )
        settings = load_settings()
        endpoint = {
            "judge_model": model,
            "judge_base_url": base_url or DEFAULT_BASE_URL,
            "judge_api_key": SecretStr(api_key) if api_key else None,
            # The environment's key is not meant for this endpoint.
            "openai_api_key": None,
        }
        self.model = model
        self.settings = settings.model_copy(update=endpoint).bound(settings.source)


class LLMEvaluator:
    """Judges single answers; `rageval judge` and `score` judge many, at once.

    Each method gives `score` (in [0, 1]), `reasoning` and the dimension's own list. Where there is no score it is None,
    and `error` says what failed, or `undefined` why nothing is to be judged (no ground truth). An equal question to the
    model is asked once in the life of the object, and nothing is kept beyond it. The methods can be called inside a
    running event loop, too.

    Args:
        llm_client: the model that judges.
        weights: of dimensions in the overall score, instead of those of the setting judge_weights.

    Raises:
        SettingsError: a weight is none, or of no dimension; or a prompt of the user's own cannot be used.
        LanguageModelError: the settings forbid language models.
    """

    def __init__(self, llm_client: LLMClient, weights: Mapping[str, float] | None = None) -> None:
        settings = llm_client.settings
        if weights is not None:
            settings = settings.model_copy(update={"judge_weights": _merged(settings.judge_weights, weights)})
        self._settings = settings
        self._tools = Tools(judge=ChatClient(settings, "judge", None, FILES_CLIENT))
        self._metrics = {metric.name: metric for metric in judge.metrics(options_of(settings, settings.k))}

    def evaluate_faithfulness(self, query: str, answer: str, chunks: Sequence[Chunk]) -> dict[str, Any]:
        """Whether the chunks support all claims of the answer; with `unsupported_claims`.

        Raises, as all methods do:
            DatasetError: a text is no string, or a chunk is none.
            LanguageModelError: the endpoint refuses (wrong key, unknown model) or cannot be reached.
        """
        return self._dimension("faithfulness", query, answer, chunks)

    def evaluate_answer_relevance(self, query: str, answer: str) -> dict[str, Any]:
        """Whether the answer addresses the query; with `missing_aspects`."""
        return self._dimension("answer_relevance", query, answer)

    def evaluate_citation_quality(self, query: str, answer: str, chunks: Sequence[Chunk]) -> dict[str, Any]:
        """Whether the citations are accurate and well formed; with `issues`."""
        return self._dimension("citation_quality", query, answer, chunks)

    def evaluate_completeness(self, query: str, answer: str, chunks: Sequence[Chunk]) -> dict[str, Any]:
        """Whether the answer uses all relevant information of the chunks; with `missing_info`."""
        return self._dimension("completeness", query, answer, chunks)

    def evaluate_correctness(self, query: str, answer: str, ground_truth: str | None) -> dict[str, Any]:
        """Whether the answer agrees with the ground truth; with `differences`."""
        return self._dimension("correctness", query, answer, ground_truth=ground_truth)

    def evaluate_comprehensive(
        self, query: str, answer: str, chunks: Sequence[Chunk], ground_truth: str | None = None
    ) -> dict[str, Any]:
        """All dimensions at once: `query`, `answer`, `evaluations` by dimension, `overall_score`, `weights_used`.

        The overall score is the mean weighted by `weights_used`, None where a dimension has an error. Correctness
        takes part where there is a ground truth.
        """
        outcomes = self._outcomes(list(self._metrics), self._result(query, answer, chunks, ground_truth))
        shape = answer_shape(outcomes, self._settings.judge_weights, has_reference=bool(ground_truth))
        return {"query": query, "answer": answer, **shape}

    def _dimension(
        self,
        name: str,
        query: str,
        answer: str,
        chunks: Sequence[Chunk] | None = None,
        ground_truth: str | None = None,
    ) -> dict[str, Any]:
        return dimension_shape(name, self._outcomes([name], self._result(query, answer, chunks, ground_truth))[name])

    def _outcomes(self, names: Sequence[str], result: Result) -> dict[str, Outcome]:
        columns = judge_scores([self._metrics[name] for name in names], [result], self._tools)
        return {name: columns[f"judge.{name}"][0] for name in names}

    def _result(self, query: str, answer: str, chunks: Sequence[Chunk] | None, ground_truth: str | None) -> Result:
        row = {"question": query or "", "answer": answer, "reference_answer": ground_truth, "contexts": _rows(chunks)}
        report = outputs_of([row], OutputOptions(decline_phrases=self._settings.decline_phrases))
        if report.refused:
            raise DatasetError(str(report.refused[0]))
        [output] = redacted_outputs(report.rows, self._settings)
        return output.result


def _rows(chunks: Sequence[Chunk] | None) -> Any:
    """The chunks as a row of outputs has them; what is no list, or no chunk, is left for the row to refuse."""
    if chunks is None or isinstance(chunks, str | bytes | Mapping):
        return chunks
    contexts: list[Any] = [{"text": chunk} if isinstance(chunk, str) else chunk for chunk in chunks]
    return [
        {_NAMES[name]: value for name, value in each.items() if name in _NAMES} if isinstance(each, Mapping) else each
        for each in contexts
    ]


def _merged(weights: JudgeWeights, changes: Mapping[str, float]) -> JudgeWeights:
    unknown = sorted(set(changes) - set(JudgeWeights.model_fields))
    if unknown:
        raise SettingsError(f"weights: no dimension {unknown[0]!r} (known: {', '.join(JudgeWeights.model_fields)})")
    try:
        return JudgeWeights.model_validate({**weights.model_dump(), **changes})
    except ValidationError as error:
        [first, *_] = error.errors()
        where = ".".join(["weights", *map(str, first["loc"])])
        raise SettingsError(f"{where}: {first['msg'].removeprefix('Value error, ')}") from None
