"""DeepEval's part of adversarial.py: runs in a virtual environment of its own, which has deepeval 4.3.1.

Reads {base_url, cases} as JSON from standard input, and prints {case: score, or why there is none; null where it has no
such metric} on the last line.
"""

# pyright: reportMissingImports=false
import json
import os
import sys
from typing import Any

os.environ |= {"DEEPEVAL_TELEMETRY_OPT_OUT": "YES", "DEEPEVAL_RETRY_MAX_ATTEMPTS": "1"}

from deepeval.metrics import (
    AnswerRelevancyMetric,
    ContextualPrecisionMetric,
    ContextualRecallMetric,
    FaithfulnessMetric,
)
from deepeval.models import LocalModel
from deepeval.test_case import LLMTestCase

METRICS: dict[str, Any] = {
    "faithfulness": FaithfulnessMetric,
    "context_recall": ContextualRecallMetric,
    "context_precision": ContextualPrecisionMetric,
    "answer_relevancy": AnswerRelevancyMetric,
}


def score(case: dict[str, Any], base_url: str) -> float | str | None:
    if case["metric"] not in METRICS:
        return None
    model = LocalModel(model=case["name"], base_url=base_url, api_key="none")
    try:
        asked = LLMTestCase(
            input=case["question"],
            actual_output=case["answer"],
            retrieval_context=case["contexts"],
            expected_output=case.get("reference"),
        )
        metric = METRICS[case["metric"]](model=model, include_reason=False, async_mode=False)
        return float(metric.measure(asked, _show_indicator=False))
    except Exception as error:  # noqa: BLE001 - whatever it raises is no score
        return f"{type(error).__name__}: {error}"


def main() -> None:
    given = json.load(sys.stdin)
    found = {case["name"]: score(case, given["base_url"]) for case in given["cases"]}
    print(json.dumps(found))


if __name__ == "__main__":
    main()
