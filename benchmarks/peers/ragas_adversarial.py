"""ragas' part of adversarial.py: runs in a virtual environment of its own, which has ragas 0.4.3.

Reads {base_url, cases} as JSON from standard input, and prints {case: score, or why there is none} on the last line.
"""

# pyright: reportMissingImports=false
import asyncio
import json
import logging
import math
import os
import sys
import warnings
from typing import Any

os.environ["RAGAS_DO_NOT_TRACK"] = "true"
warnings.simplefilter("ignore")
logging.getLogger("ragas").setLevel(logging.CRITICAL)

from langchain_openai import ChatOpenAI, OpenAIEmbeddings  # noqa: E402
from ragas.dataset_schema import SingleTurnSample  # noqa: E402
from ragas.embeddings import LangchainEmbeddingsWrapper  # noqa: E402
from ragas.llms import LangchainLLMWrapper  # noqa: E402
from ragas.metrics import (  # noqa: E402
    AnswerCorrectness,
    AnswerSimilarity,
    Faithfulness,
    LLMContextPrecisionWithReference,
    LLMContextRecall,
    ResponseRelevancy,
)
from ragas.run_config import RunConfig  # noqa: E402

METRICS: dict[str, Any] = {
    "faithfulness": Faithfulness,
    "context_recall": LLMContextRecall,
    "context_precision": LLMContextPrecisionWithReference,
    "answer_relevancy": ResponseRelevancy,
    "answer_correctness": AnswerCorrectness,
}


async def score(case: dict[str, Any], base_url: str) -> float | str:
    access: Any = {"base_url": base_url, "api_key": "none", "max_retries": 0}
    metric = METRICS[case["metric"]]()
    metric.llm = LangchainLLMWrapper(ChatOpenAI(model=case["name"], **access))
    embeddings = LangchainEmbeddingsWrapper(
        OpenAIEmbeddings(model="scripted", check_embedding_ctx_length=False, **access)
    )
    if case["metric"] in ("answer_relevancy", "answer_correctness"):
        metric.embeddings = embeddings
    if case["metric"] == "answer_correctness":
        metric.answer_similarity = AnswerSimilarity(embeddings=embeddings)
    metric.init(RunConfig(max_retries=1, timeout=60))
    sample = SingleTurnSample(
        user_input=case["question"],
        response=case["answer"],
        retrieved_contexts=case["contexts"],
        reference=case.get("reference"),
    )
    try:
        found = await metric.single_turn_ascore(sample)
    except Exception as error:  # noqa: BLE001 - whatever it raises is no score
        return f"{type(error).__name__}: {error}"
    return "NaN" if math.isnan(found) else float(found)


async def main() -> None:
    given = json.load(sys.stdin)
    found = {case["name"]: await score(case, given["base_url"]) for case in given["cases"]}
    print(json.dumps(found))


if __name__ == "__main__":
    asyncio.run(main())
