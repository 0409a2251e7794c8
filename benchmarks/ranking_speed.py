"""The retrieval family and `rageval trec` on many questions: their time against bare pytrec_eval's, and memory.

Usage: python benchmarks/ranking_speed.py [QUESTIONS] [DEPTH]    (default: 100000 questions, 10 results each)
"""

import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rageval_dagster.benchmark.trec_files import read_qrels, read_run, write_trec
from rageval_dagster.metrics.interface import MetricOptions, Tools
from rageval_dagster.metrics.registry import compute_scores
from rageval_dagster.metrics.retrieval import metrics
from rageval_dagster.metrics.trec import DEFAULT_MEASURES, parse_measure, score_run
from rageval_dagster.records import Hit, Item, Result

MEASURES = {parse_measure(name).trec_name for name in DEFAULT_MEASURES}
CORPUS = 5_000
RELEVANT = 3
REPEATS = 3

# VmHWM, because what resource says of a child includes its parent's memory.
WHOLE_COMMAND = """
import time
from pathlib import Path
from rageval_dagster.cli import main
try:
    main()
except SystemExit:
    peak = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    print(f"{time.process_time():.1f} s of processor time, peak {int(peak.split()[1]) / 1024:.0f} MB")
"""


def some_results(count: int, depth: int) -> list[Result]:
    """Random lists, four chunks a document; a relevant chunk is among four lists of five."""
    draw = random.Random(0)
    results: list[Result] = []
    for number in range(count):
        chunks = draw.sample(range(CORPUS), depth)
        found = draw.sample(chunks, 1) if draw.random() < 0.8 else []
        relevant = {*found, *draw.sample(range(CORPUS), RELEVANT - 1)}
        results.append(
            Result(
                Item(f"question {number}"),
                relevant_chunks=frozenset(f"c{chunk}" for chunk in relevant),
                relevant_documents=frozenset(f"d{chunk // 4}" for chunk in relevant),
                hits=tuple(Hit(f"c{chunk}", f"d{chunk // 4}", rank, 1 / rank) for rank, chunk in enumerate(chunks, 1)),
                k=5,
            )
        )
    return results


def seconds(work: Callable[[], Any]) -> float:
    """The least processor time of a few runs."""
    times: list[float] = []
    for _ in range(REPEATS):
        started = time.process_time()
        work()
        times.append(time.process_time() - started)
    return min(times)


def peak_megabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def files_speed(qrels_path: Path, run_path: Path) -> float:
    """Prints what one level's files take; the seconds that bare pytrec_eval takes on the same dicts."""
    from pytrec_eval import RelevanceEvaluator

    reading = seconds(lambda: read_run(run_path))
    qrels, run = read_qrels(qrels_path).values, read_run(run_path).values
    measures = [parse_measure(name) for name in DEFAULT_MEASURES]
    scoring = seconds(lambda: score_run(qrels, run, measures))
    summed_up = seconds(lambda: score_run(qrels, run, measures).summaries)
    bare = seconds(lambda: RelevanceEvaluator(qrels, MEASURES).evaluate(run))
    print(
        f"{run_path.stem} level: bare pytrec_eval {bare:.2f} s; rageval trec reads the run "
        f"({run_path.stat().st_size / 1e6:.0f} MB) in {reading:.2f} s, scores it in {scoring:.2f} s "
        f"({scoring / bare:.2f} x), with intervals in {summed_up:.2f} s"
    )
    return bare


def main(count: int, depth: int) -> None:
    print(f"{count} questions x {depth} results, {', '.join(sorted(MEASURES))}; processor time")
    results = some_results(count, depth)
    with tempfile.TemporaryDirectory() as folder:
        names = {f"q{number}": result for number, result in enumerate(results)}
        paths = {level: write_trec(Path(folder), names, level, "bench", level) for level in ("chunk", "document")}
        family, held = metrics(MetricOptions(k=5)), peak_megabytes()
        ours = seconds(lambda: compute_scores(family, results, Tools()))
        more = peak_megabytes() - held
        theirs = sum(files_speed(qrels, run) for qrels, run in paths.values())
        print(
            f"retrieval family, both levels and foreign_hits: {ours:.2f} s, {ours / theirs:.2f} x bare pytrec_eval on "
            f"both; {more:.0f} MB beside the results"
        )
        done = subprocess.run(
            [sys.executable, "-c", WHOLE_COMMAND, "trec", *map(str, paths["chunk"])],
            check=True,
            capture_output=True,
            text=True,
        )
        print(f"rageval trec, chunk level, all in all: {done.stdout.splitlines()[-1]}")


if __name__ == "__main__":
    main(*(int(argument) for argument in (*sys.argv[1:], *("100000", "10")[len(sys.argv) - 1 :])))
