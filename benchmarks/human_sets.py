"""Retrieval on human-made sets: nDCG@10 of the reference systems, and every number against pytrec_eval's.

Usage: python benchmarks/human_sets.py [SET ...]    (default: clapnq xquad_en, found in RAGEVAL_DATA_DIR)
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

DATA = Path(os.environ.get("RAGEVAL_DATA_DIR", Path(__file__).parents[1] / "../shared/data"))
SYSTEMS = ("dense", "bm25", "hybrid")
MEASURES = {
    "precision_at_5": "P_5",
    "recall_at_5": "recall_5",
    "hit_rate_at_5": "success_5",
    "mrr": "recip_rank",
    "ndcg_at_5": "ndcg_cut_5",
    "ndcg_at_10": "ndcg_cut_10",
    "map": "map",
}


def rageval(home: Path, *arguments: str) -> str:
    environment = {**os.environ, "RAGEVAL_HOME": str(home), "EVALUATION_AUTO_GENERATE_DATASETS": "false"}
    environment.pop("DAGSTER_HOME", None)
    command = [sys.executable, "-m", "rageval_dagster", *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 4):  # 4: done, with rows refused and named
        raise SystemExit(done.stderr)
    return done.stdout


def trec_means(qrels_path: Path, run_path: Path) -> dict[str, float]:
    """What pytrec_eval says of the exported files, over the questions with evidence (absent ones count 0, as `-c`)."""
    import pytrec_eval

    qrels: dict[str, dict[str, int]] = {}
    for line in qrels_path.read_text().splitlines():
        question, _, document, relevance = line.split()
        qrels.setdefault(question, {})[document] = int(relevance)
    run: dict[str, dict[str, float]] = {}
    for line in run_path.read_text().splitlines():
        question, _, document, _, score, _ = line.split()
        run.setdefault(question, {})[document] = float(score)
    scored = pytrec_eval.RelevanceEvaluator(qrels, set(MEASURES.values())).evaluate(run)
    return {
        name: sum(scored.get(question, {}).get(measure, 0.0) for question in qrels) / len(qrels)
        for name, measure in MEASURES.items()
    }


def measure(name: str) -> None:
    source = DATA / name
    with tempfile.TemporaryDirectory() as folder:
        home, started = Path(folder) / "home", time.monotonic()
        rageval(home, "ingest", str(source / "corpus.jsonl"), "--client", name, "--chunk-size", "0", "--overlap", "0")
        imported = json.loads(
            rageval(home, "datasets", "import", str(source), "--client", name, "--format", "beir", "--json")
        )
        systems = [word for system in SYSTEMS for word in ("--system", system)]
        printed = rageval(home, "evaluate", "--client", name, *systems, "--json")
        evaluations = [json.loads(line) for line in printed.splitlines()]
        print(f"{name}: {imported['imported']} questions, {time.monotonic() - started:.0f} s in all")
        for evaluation in evaluations:
            exported = rageval(
                home, "runs", "export", str(evaluation["run_id"]), "--out", folder, "--level", "document"
            )
            qrels, run = map(Path, exported.splitlines()[:2])
            theirs = trec_means(qrels, run)
            ours = {measure: evaluation["metrics"][f"retrieval.document_{measure}"]["mean"] for measure in theirs}
            off = max(abs(ours[measure] - theirs[measure]) for measure in theirs)
            shown = "  ".join(f"{measure} {ours[measure]:.4f}" for measure in theirs)
            print(f"  {evaluation['system']:7s} {shown}  largest difference to pytrec_eval {off:.1e}")


if __name__ == "__main__":
    for chosen in sys.argv[1:] or ("clapnq", "xquad_en"):
        if (DATA / chosen).is_dir():
            measure(chosen)
        else:
            print(f"{chosen}: not found in {DATA}; set RAGEVAL_DATA_DIR")
