"""Cases made to mislead an evaluation: how many wrong scores ours, ragas 0.4.3 and DeepEval 4.3.1 give.

Usage: python benchmarks/adversarial.py [--ragas-python PATH] [--deepeval-python PATH] [--all]

adversarial.jsonl has the cases, each with the score that is right (`right`: the least and the greatest; null: there is
none). All tools ask the same scripted judge (judging/adversary.py), which knows what is right and in some cases
misbehaves. A score outside `right` is wrong. No score (an error, or undefined) where one would be right is counted
apart: it misleads nobody.

A judge that obeys orders does so where the order stands in what it is sent outside of any frame that the order's
writer could not have closed: JSON, or a tag with a random part. That is a rule, and no measurement of a real model.

The others never stand in the project's own environment. Make each one, and name its python:

    python3 -m venv ragas-venv
    ragas-venv/bin/pip install ragas==0.4.3 'langchain-community<0.4' 'langchain<1' 'langchain-core<1' \\
        'langchain-openai<1'
    python3 -m venv deepeval-venv
    deepeval-venv/bin/pip install deepeval==4.3.1
"""

import argparse
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from judging.adversary import Judge

from rageval_dagster.errors import RagevalError
from rageval_dagster.ragas import evaluate
from tests.llm.scripted_server import ScriptedServer

HERE = Path(__file__).parent
CASES = [json.loads(line) for line in (HERE / "adversarial.jsonl").read_text(encoding="utf-8").splitlines()]
OURS = "rageval"
TOLERANCE = 1e-3

Score = float | str | None
"""A score; why there is none, in words; None where the tool has no such metric."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ragas-python", type=Path)
    parser.add_argument("--deepeval-python", type=Path)
    parser.add_argument("--all", action="store_true", help="show every case, not only wrong scores")
    given = parser.parse_args()
    found = {OURS: ours()}
    for name, python in (("ragas", given.ragas_python), ("DeepEval", given.deepeval_python)):
        if python is not None:
            found[name] = peer(python, f"{name.lower()}_adversarial.py")
    for case in CASES:
        judged = {name: judgement(case, scores[case["name"]]) for name, scores in found.items()}
        if given.all or "wrong" in judged.values():
            print(f"{case['kind']} / {case['name']} ({case['metric']}), right: {case['right'] or 'no score'}")
            for name, scores in found.items():
                print(f"    {name:10} {judged[name]:9} {told(scores[case['name']])}")
    kinds = dict.fromkeys(case["kind"] for case in CASES)
    print(f"\n{'wrong scores':20} cases" + "".join(f"{name:>10}" for name in found))
    for kind in kinds:
        of_kind = [case for case in CASES if case["kind"] == kind]
        print(f"{kind:20} {len(of_kind):5}" + "".join(f"{counts(of_kind, s)['wrong']:10}" for s in found.values()))
    for what in ("wrong", "right", "no score", "no metric"):
        print(f"{what:20} {len(CASES):5}" + "".join(f"{counts(CASES, s)[what]:10}" for s in found.values()))
    if counts(CASES, found[OURS])["wrong"]:
        sys.exit(1)


def judgement(case: Mapping[str, Any], score: Score) -> str:
    """`right`, `wrong`, `no score` (where one would be right), or `no metric`."""
    if score is None:
        return "no metric"
    if isinstance(score, str):
        return "right" if case["right"] is None else "no score"
    if case["right"] is None:
        return "wrong"
    least, greatest = case["right"]
    return "right" if least - TOLERANCE <= score <= greatest + TOLERANCE else "wrong"


def counts(cases: Sequence[Mapping[str, Any]], scores: Mapping[str, Score]) -> Counter[str]:
    return Counter(judgement(case, scores[case["name"]]) for case in cases)


def told(score: Score) -> str:
    return str(score or "").partition("\n")[0][:100] if isinstance(score, str | None) else f"{score:.3f}"


def ours() -> dict[str, Score]:
    found: dict[str, Score] = {}
    with ScriptedServer(Judge({case["name"]: case for case in CASES})) as server:
        os.environ |= {"OPENAI_BASE_URL": server.base_url, "RAGEVAL_METRIC_EMBEDDING_MODEL": "openai:scripted"}
        os.environ |= {"RAGEVAL_LLM_MAX_ATTEMPTS": "3", "OPENAI_API_KEY": "none"}
        for case in CASES:
            names = {"user_input": "question", "response": "answer", "retrieved_contexts": "contexts"}
            sample = {ours: case[theirs] for ours, theirs in names.items()} | {"reference": case.get("reference")}
            try:
                result = evaluate([sample], [case["metric"]], llm=case["name"])
            except RagevalError as error:
                found[case["name"]] = str(error)
                continue
            [score] = result[case["metric"]]
            found[case["name"]] = result.reasons[0][case["metric"]] if score is None else score
    return found


def peer(python: Path, program: str) -> dict[str, Score]:
    """The scores of a program of benchmarks/peers, which runs in an environment of its own."""
    with ScriptedServer(Judge({case["name"]: case for case in CASES})) as server:
        asked = json.dumps({"base_url": server.base_url, "cases": CASES})
        command = [str(python), str(HERE / "peers" / program)]
        ended = subprocess.run(command, input=asked, stdout=subprocess.PIPE, text=True, check=False)
    if ended.returncode:
        sys.exit(f"{program} failed with {ended.returncode}")
    return json.loads(ended.stdout.splitlines()[-1])


if __name__ == "__main__":
    main()
