"""Retrieval on human-made sets: nDCG@10 of the reference systems, and every number against three other computations.

The evaluation's own numbers are compared with what `rageval trec`, bare pytrec_eval and ir_measures (where installed)
say of the files that `rageval runs export` writes.

Usage: python benchmarks/human_sets.py [SET ...]    (default: clapnq xquad_en, found in RAGEVAL_DATA_DIR)
"""

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from rageval_dagster.metrics.trec import parse_measure

DATA = Path(os.environ.get("RAGEVAL_DATA_DIR", Path(__file__).parents[1] / "../shared/data"))
SYSTEMS = ("dense", "bm25", "hybrid")
MEASURES = {
    "precision_at_5": "P@5",
    "recall_at_5": "R@5",
    "hit_rate_at_5": "Success@5",
    "mrr": "RR",
    "ndcg_at_5": "nDCG@5",
    "ndcg_at_10": "nDCG@10",
    "map": "AP",
}


def rageval(home: Path, *arguments: str) -> str:
    environment = {**os.environ, "RAGEVAL_HOME": str(home), "EVALUATION_AUTO_GENERATE_DATASETS": "false"}
    environment.pop("DAGSTER_HOME", None)
    command = [sys.executable, "-m", "rageval_dagster", *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 4):  # 4: done, with rows refused and named
        raise SystemExit(done.stderr)
    return done.stdout


def trec_means(home: Path, qrels_path: Path, run_path: Path) -> dict[str, dict[str, float]]:
    """What each computation says of exported files, over the questions with evidence (absent ones count 0, as `-c`)."""
    import pytrec_eval

    measures = [word for measure in MEASURES.values() for word in ("-m", measure)]
    printed = json.loads(rageval(home, "trec", str(qrels_path), str(run_path), "-c", "--json", *measures))
    means = {"rageval trec": {name: printed["scores"][measure]["mean"] for name, measure in MEASURES.items()}}
    with qrels_path.open(encoding="utf-8") as qrels_file, run_path.open(encoding="utf-8") as run_file:
        qrels, run = pytrec_eval.parse_qrel(qrels_file), pytrec_eval.parse_run(run_file)
    trec_names = {name: parse_measure(measure).trec_name for name, measure in MEASURES.items()}
    values = pytrec_eval.RelevanceEvaluator(qrels, set(trec_names.values())).evaluate(run)
    means["pytrec_eval"] = {
        name: sum(values.get(question, {}).get(measure, 0.0) for question in qrels) / len(qrels)
        for name, measure in trec_names.items()
    }
    if importlib.util.find_spec("ir_measures"):
        import ir_measures

        parsed = {name: ir_measures.parse_measure(measure) for name, measure in MEASURES.items()}
        found = ir_measures.calc_aggregate(parsed.values(), qrels, run)
        means["ir_measures"] = {name: found[measure] for name, measure in parsed.items()}
    return means


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
            ours = {measure: evaluation["metrics"][f"retrieval.document_{measure}"]["mean"] for measure in MEASURES}
            shown = "  ".join(f"{measure} {ours[measure]:.4f}" for measure in MEASURES)
            off = "  ".join(
                f"{who} {max(abs(ours[measure] - theirs[measure]) for measure in MEASURES):.1e}"
                for who, theirs in trec_means(home, qrels, run).items()
            )
            print(f"  {evaluation['system']:7s} {shown}\n{'':10}largest difference to: {off}")


if __name__ == "__main__":
    for chosen in sys.argv[1:] or ("clapnq", "xquad_en"):
        if (DATA / chosen).is_dir():
            measure(chosen)
        else:
            print(f"{chosen}: not found in {DATA}; set RAGEVAL_DATA_DIR")
