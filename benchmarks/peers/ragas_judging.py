"""ragas' half of judging_speed.py: runs in a virtual environment of its own, which has ragas 0.4.3.

Reads {base_url, items, concurrency} as JSON from standard input, and prints {seconds, calls, most_at_once, scores}.
Imports, clients and a first small run stand outside the measured time.
"""

# pyright: reportMissingImports=false
import asyncio
import json
import logging
import os
import sys
import time
import urllib.request
import warnings
from typing import Any

os.environ["RAGAS_DO_NOT_TRACK"] = "true"
warnings.simplefilter("ignore")
# It sets n on a model that its coroutines share, so that some requests ask for the wrong number, and warns each time.
logging.getLogger("ragas").setLevel(logging.ERROR)

import ragas  # noqa: E402
from langchain_openai import ChatOpenAI, OpenAIEmbeddings  # noqa: E402
from ragas import EvaluationDataset, aevaluate  # noqa: E402
from ragas.metrics import (  # noqa: E402
    Faithfulness,
    LLMContextPrecisionWithReference,
    LLMContextRecall,
    ResponseRelevancy,
)
from ragas.run_config import RunConfig  # noqa: E402

VERSION = "0.4.3"


def counts(base_url: str) -> dict[str, int]:
    with urllib.request.urlopen(f"{base_url}/counts") as response:
        return json.load(response)


async def run(llm: Any, embeddings: Any, items: list[dict[str, Any]], concurrency: int) -> dict[str, float]:
    """Scores the items; gives each metric's mean."""
    dataset = EvaluationDataset.from_list(
        [
            {
                "user_input": item["question"],
                "response": item["answer"],
                "retrieved_contexts": item["contexts"],
                "reference": item["reference"],
            }
            for item in items
        ]
    )
    metrics = [Faithfulness(), ResponseRelevancy(), LLMContextPrecisionWithReference(), LLMContextRecall()]
    found: Any = await aevaluate(
        dataset,
        metrics=metrics,
        llm=llm,
        embeddings=embeddings,
        run_config=RunConfig(max_workers=concurrency),
        show_progress=False,
        raise_exceptions=True,
    )
    return {metric.name: sum(found[metric.name]) / len(items) for metric in metrics}


async def main() -> None:
    if ragas.__version__ != VERSION:
        sys.exit(f"This environment has ragas {ragas.__version__}; the comparison is with {VERSION}.")
    given = json.load(sys.stdin)
    base_url, items, concurrency = given["base_url"], given["items"], given["concurrency"]
    access: Any = {"base_url": base_url, "api_key": "none"}
    llm = ChatOpenAI(model="scripted", **access)
    # Texts go as they are: counting tokens would load a vocabulary from the network.
    embeddings = OpenAIEmbeddings(model="scripted", check_embedding_ctx_length=False, **access)
    await run(llm, embeddings, items[:2], concurrency)
    before = counts(base_url)
    started = time.perf_counter()
    scores = await run(llm, embeddings, items, concurrency)
    seconds = time.perf_counter() - started
    after = counts(base_url)
    print(
        json.dumps(
            {
                "seconds": seconds,
                "calls": after["chat"] - before["chat"],
                "most_at_once": after["most_at_once"],
                "scores": scores,
            }
        )
    )


if __name__ == "__main__":
    asyncio.run(main())
