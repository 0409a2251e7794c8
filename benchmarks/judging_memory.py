"""The memory that judging takes beyond what stands before it: imports, the items, and an empty history database.

Usage: python benchmarks/judging_memory.py [--items 10000]

Items with five contexts get claims.faithfulness, answer_relevancy, context_precision and context_recall, in batches as
a run judges them, from the scripted endpoint of judging_speed.py, which answers at once.
"""

import argparse
import resource
import time

from judging_speed import CONTEXTS, OURS, endpoint, judging, result_of, some_items, verdict

from rageval_dagster.evaluation.scoring import JUDGED_AT_ONCE
from rageval_dagster.metrics.judge_model import judge_scores

AT_ONCE = 64
MOST_MB = 500


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--items", type=int, default=10_000)
    results = [result_of(item) for item in some_items(parser.parse_args().items)]
    with endpoint(wait=0.0) as base_url, judging(base_url, AT_ONCE) as (metrics, tools):
        # What is loaded with the first request is no memory of judging.
        judge_scores(metrics, results[:1], tools)
        before, started = peak_mb(), time.perf_counter()
        kept = {metric.id: 0.0 for metric in metrics}
        for start in range(0, len(results), JUDGED_AT_ONCE):
            batch = results[start : start + JUDGED_AT_ONCE]
            for name, column in judge_scores(metrics, batch, tools).items():
                kept[name] += sum(outcome.value or 0.0 for outcome in column)
        seconds, after = time.perf_counter() - started, peak_mb()
    print(f"{len(results)} items, {len(OURS)} metrics, {CONTEXTS} contexts: {seconds:.0f} s")
    print(f"before {before:.0f} MB, peak {after:.0f} MB")
    print(verdict("MB beyond the base", after - before, MOST_MB))


def peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    main()
