"""Continuous evaluation of RAG systems as Dagster assets; what a script calls of it is importable from here."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rageval_dagster.app.evaluate import evaluate
    from rageval_dagster.metrics.assessment import assess_answer, evaluate_all, improve_answer
    from rageval_dagster.recorded.asserting import assert_evaluation
    from rageval_dagster.recorded.llm_evaluator import LLMClient, LLMEvaluator
    from rageval_dagster.recorded.scoring import score

__all__ = [
    "LLMClient",
    "LLMEvaluator",
    "assert_evaluation",
    "assess_answer",
    "evaluate",
    "evaluate_all",
    "improve_answer",
    "score",
]

_MODULES = {
    "LLMClient": "recorded.llm_evaluator",
    "LLMEvaluator": "recorded.llm_evaluator",
    "assert_evaluation": "recorded.asserting",
    "assess_answer": "metrics.assessment",
    "evaluate": "app.evaluate",
    "evaluate_all": "metrics.assessment",
    "improve_answer": "metrics.assessment",
    "score": "recorded.scoring",
}


def __getattr__(name: str) -> Any:
    """A name of the Python API, its module imported when it is first asked for."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
