"""How well a few labels correct a judge: coverage and width of 95 % intervals on people's judgements of NQ301.

The answers of NQ301 (those that both models judged, to 301 questions) were judged by people, by GPT-4 and by BEM; the
third judge is our own answer_match, the fourth a coin. A draw labels 60 or 120 of them; the truth is people's mean over
all. Beside ours: the labels alone, the judge alone, Rogan & Gladen's estimate, and, where `ppi_py` is installed, PPI++.

Usage: python benchmarks/true_scores.py [--draws 1000]    (nq301 is looked for in RAGEVAL_DATA_DIR)
"""

import argparse
import importlib.util
import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path

import numpy as np

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from rageval_dagster.metrics.answer_match import answer_match
from rageval_dagster.statistics import Corrected, corrected_difference, corrected_mean

DATA = Path(os.environ.get("RAGEVAL_DATA_DIR", Path(__file__).parents[1] / "../shared/data"))
SIZES = (60, 120)
SEED = 20261125
Z = 1.959964

Values = dict[str, float]
Rng = np.random.Generator


def interval(found: Corrected) -> tuple[float, float]:
    if found.low is None or found.high is None:
        raise SystemExit(f"no interval: {found.lacking}")
    return found.low, found.high


def rogan_gladen(labels: Values, judge: Values) -> tuple[float, float] | None:
    """The judge's rate, corrected by its sensitivity and specificity on the labelled (delta method)."""
    said, true = (np.array([table[name] for name in labels]) >= 0.5 for table in (judge, labels))
    if not true.any() or true.all():
        return None
    sensitivity, specificity = float(said[true].mean()), float((~said[~true]).mean())
    youden = sensitivity + specificity - 1.0
    if youden <= 0.0:
        return None
    rate = float(np.mean([value >= 0.5 for value in judge.values()]))
    level = (rate + specificity - 1.0) / youden
    variance = rate * (1 - rate) / len(judge)
    variance += level**2 * sensitivity * (1 - sensitivity) / true.sum()
    variance += (1 - level) ** 2 * specificity * (1 - specificity) / (~true).sum()
    half = Z * float(np.sqrt(variance)) / youden
    return level - half, level + half


def ppi(labels: Values, judge: Values) -> tuple[float, float] | None:
    """The interval of the authors' package."""
    if importlib.util.find_spec("ppi_py") is None:
        return None
    from ppi_py import ppi_mean_ci  # pyright: ignore[reportMissingImports]

    rest = np.array([value for name, value in judge.items() if name not in labels])
    low, high = ppi_mean_ci(
        np.array(list(labels.values())), np.array([judge[name] for name in labels]), rest, alpha=0.05
    )
    return float(low[0]), float(high[0])


def stratified(rng: Rng, truth: Values, judge: Values, size: int) -> Values:
    """Labels drawn by the judge's verdict, as many of each as Neyman's allocation wants for its likely errors."""
    groups = [[name for name, value in judge.items() if (value >= 0.5) == good] for good in (False, True)]
    groups = [each for each in groups if each]
    # The spread within a group is not known before anything is labelled: a tenth of the labels is a pilot.
    pilot = [list(rng.choice(each, min(len(each), max(size // 20, 5)), replace=False)) for each in groups]
    # As if one more label were right and one wrong: no group is taken for certain.
    rates = [(sum(truth[name] for name in each) + 1.0) / (len(each) + 2.0) for each in pilot]
    wanted = np.array([len(each) * np.sqrt(rate * (1 - rate)) for each, rate in zip(groups, rates, strict=True)])
    shares = np.maximum(np.round(size * wanted / wanted.sum()).astype(int), [len(each) for each in pilot])
    names: list[str] = []
    for group, first, share in zip(groups, pilot, shares, strict=True):
        rest = sorted(set(group) - set(first))
        names += [*first, *rng.choice(rest, min(len(rest), int(share) - len(first)), replace=False)]
    return {name: truth[name] for name in names}


def line(name: str, bounds: list[tuple[float, float] | None], truth: float, alone: float | None) -> float:
    known = [each for each in bounds if each is not None]
    if not known:
        print(f"  {name:<28} not run")
        return 0.0
    covered = np.mean([low <= truth <= high for low, high in known])
    width = float(np.mean([high - low for low, high in known]))
    beside = "" if alone is None else f"  {width / alone:.2f} of the labels' alone"
    print(f"  {name:<28} covers {covered:.3f}  width {width:.3f}{beside}")
    return width


def levels(judges: Mapping[str, Values], truth: Values, clusters: Mapping[str, str], draws: int) -> None:
    names = sorted(truth)
    level = float(np.mean(list(truth.values())))
    for judge_name, judge in judges.items():
        for size in SIZES:
            rng = np.random.default_rng([SEED, size])
            found: dict[str, list[tuple[float, float] | None]] = {}
            for _ in range(draws):
                labels = {name: truth[name] for name in rng.choice(names, size, replace=False)}
                by_judge = stratified(rng, truth, judge, size)
                strata = {name: value >= 0.5 for name, value in judge.items()}
                alone = corrected_mean(labels, dict.fromkeys(judge, 0.5), clusters=clusters)
                each = {
                    "labels alone": interval(alone),
                    "ours, random draw": interval(corrected_mean(labels, judge, clusters=clusters)),
                    "ours, the queue's draw": interval(
                        corrected_mean(by_judge, judge, strata=strata, clusters=clusters)
                    ),
                    "Rogan-Gladen": rogan_gladen(labels, judge),
                    "PPI++ (its authors' package)": ppi(labels, judge),
                }
                for how, bounds in each.items():
                    found.setdefault(how, []).append(bounds)
            mean = float(np.mean(list(judge.values())))
            half = Z * float(np.std(list(judge.values()))) / len(judge) ** 0.5
            print(f"\n{judge_name}, mean {mean:.3f} (people: {level:.3f}), {size} labels of {len(judge)}")
            line("judge alone", [(mean - half, mean + half)], level, None)
            alone_width = line("labels alone", found.pop("labels alone"), level, None)
            widths = {how: line(how, bounds, level, alone_width) for how, bounds in found.items()}
            ratio = (widths["ours, the queue's draw"] / widths["ours, random draw"]) ** 2
            print(f"  the queue needs {ratio:.2f} of the labels that a random draw needs for the same width")


def differences(judge: str, scores: Values, truth: Values, by_question: Mapping[str, list[str]], draws: int) -> None:
    """Two systems on the same questions: any two of the answers to each, drawn anew each time."""
    asked = sorted(question for question, names in by_question.items() if len(names) > 1)
    for size in SIZES:
        rng, covered, ours, alone, pairs = np.random.default_rng([SEED, size, 2]), 0, 0.0, 0.0, 0
        for _ in range(draws):
            one, other = {}, {}
            for question in asked:
                one[question], other[question] = rng.choice(by_question[question], 2, replace=False)
            difference = float(np.mean([truth[other[each]] - truth[one[each]] for each in asked]))
            picked = list(rng.choice(asked, size, replace=False))
            labels_before, labels_after = ({each: truth[of[each]] for each in picked} for of in (one, other))
            judge_before, judge_after = ({each: scores[of[each]] for each in asked} for of in (one, other))
            found = corrected_difference(labels_before, judge_before, labels_after, judge_after)
            if found.gain is None:
                continue
            low, high = interval(found)
            covered, pairs = covered + (low <= difference <= high), pairs + 1
            ours, alone = ours + high - low, alone + (high - low) * found.gain
        print(
            f"  {judge}, {size} pairs of {len(asked)}: covers {covered / pairs:.3f}, width {ours / pairs:.3f}, "
            f"{ours / alone:.2f} of the labels' alone; no interval in {draws - pairs} of {draws} draws"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=1000)
    draws = parser.parse_args().draws
    lines = (DATA / "nq301" / "judged.jsonl").read_text(encoding="utf-8").splitlines()
    rows = {row["id"]: row for row in map(json.loads, lines) if row["other_judges"].keys() >= {"gpt-4", "BEM"}}
    truth = {name: float(row["label"] == "correct") for name, row in rows.items()}
    questions = {name: row["question"] for name, row in rows.items()}
    coin = np.random.default_rng(SEED)
    judges = {
        "GPT-4": {name: float(row["other_judges"]["gpt-4"] == "Yes") for name, row in rows.items()},
        "BEM": {name: float(row["other_judges"]["BEM"] == "Yes") for name, row in rows.items()},
        "answer_match": {
            name: answer_match(row["question"], row["gold_answers"], row["answer"]) or 0.0 for name, row in rows.items()
        },
        "a coin": {name: float(coin.random() < 0.5) for name in rows},
    }
    levels(judges, truth, questions, draws)
    by_question: dict[str, list[str]] = {}
    for name, question in questions.items():
        by_question.setdefault(question, []).append(name)
    print("\nPaired differences of two systems:")
    for name, scores in judges.items():
        differences(name, scores, truth, by_question, draws)


if __name__ == "__main__":
    main()
