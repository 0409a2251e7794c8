"""The registry as a page of documentation: `python -m scripts.metrics_docs` writes docs/metrics.md."""

import sys
from collections.abc import Iterable
from itertools import groupby
from pathlib import Path

from rageval_dagster.metrics.interface import Metric, MetricOptions
from rageval_dagster.metrics.registry import all_metrics

PAGE = Path("docs/metrics.md")

_CUTOFF = 997
"""Stands for k wherever a text names it; no other number of the texts is like it."""
_MODEL = "EMBEDDING-MODEL"
_JUDGE = "JUDGE-MODEL"

_INTRODUCTION = """\
# Metrics

<!-- Written by `make docs` from the metrics' own declarations: change those. -->

Every value lies between 0 and 1. What a metric says of one question is a score, or *undefined* (the definition has no
value there: no evidence is known, no claims are made), or an *error* (the system or the metric failed); only scores
enter the mean, and the others are counted beside it with their reasons. A question on which the system failed is an
error for every metric.

`k` is the cutoff (`k` in rageval.toml). A version changes whenever the number for the same result may change: it holds
the metric's parameters, the embedding model, and the judge model with its prompts. A comparison of two runs uses only
metrics of one version. A good value is what the mean is held to; `thresholds` in rageval.toml sets another one.
Sources named seed 000 to 004 are the five programs whose definitions were taken over.

`rageval metrics list` lists all of this for a client, `rageval metrics show ID` shows one metric, and `rageval metrics
agreement FILE` tells how well each one agrees with people.
"""

_OWN = """\
## Your own metrics

A function that takes a batch of results and gives one value each is made a metric by `@metric`:

```python
# acme_metrics.py, beside rageval.toml
from rageval_dagster.metrics.own import metric


@metric(
    "acme.politeness",
    version="1",
    needs={"answer"},
    description="Whether the answer thanks or greets.",
    good_value=0.5,
)
def politeness(results, tools):
    return ["thank" in result.answer.text.lower() for result in results]
```

```toml
[defaults]
metrics = ["retrieval.*", "overlap.*", "acme_metrics:politeness"]
```

An entry with a colon names a metric, a list of them, or a function that makes them of the `MetricOptions` (for one that
depends on `k`); all other entries are patterns that choose among the metrics, `precision_at_k` standing for any cutoff.
Without a pattern all built-in metrics run beside your own. A package offers its metrics to every client by an entry
point in the group `rageval_dagster.metrics`:

```toml
[project.entry-points."rageval_dagster.metrics"]
acme = "acme_metrics:politeness"
```

The function gets the results that its needs are met for. It gives a number from 0 to 1 (or True, False), None for
undefined, or an `Outcome`; anything else is an error for that result, an exception or a wrong number of values for all
of the batch. The reason of an exception is its class and the line, `ValueError at acme_metrics.py:12`, never its
message, which may hold texts. **The reasons that you return are stored with the scores**, for longer than texts are
kept: put no text of a question, answer or document in them. Details go when the answer's text does.

An id is `family.name` with a family of your own. `tools.embed(texts)` gives vectors to a metric that needs the
`embedder`, whose model is then part of its version by itself: a mapping from each text to a float32 array of shape
[windows, dimension], its rows of length 1, one for each part of the text that the model can read at once. It may have
other texts too.

**Change `version` whenever the number for the same result may change**, be it by the code or by a word list or model
that it reads. Scores are stored under it and are not computed again, and runs are compared as long as it is the same.
"""

_FAMILIES = {
    "retrieval": "The ranking of what was retrieved, by chunk and by document.",
    "embedding": "Cosine similarities of question, contexts, answer and reference.",
    "lexical": "The answer against the reference, by words and numbers.",
    "checks": "What single questions declare about their answer.",
    "overlap": "Token overlap of answer, reference and contexts, without a model.",
    "citation": "The citations in the answer.",
    "quality": "Heuristics, without a model.",
    "judge": "A judge model (RAGEVAL_JUDGE_MODEL) scores each dimension of the answer, and says why.",
    "claims": "Single facts of answer, reference and contexts, as a judge model finds and compares them (RAGAS).",
}

_UNANSWERABLE = {
    "undefined": "undefined",
    "if_answered": "undefined unless the system answered",
    "scored": "scored",
}


def page(metrics: Iterable[Metric]) -> str:
    """The page about these metrics, in their order, as Markdown."""
    families = [
        "\n".join([f"## {family}\n", f"{_FAMILIES[family]}\n", *map(_section, members)])
        for family, members in groupby(metrics, lambda metric: metric.family)
    ]
    return "\n".join([_INTRODUCTION, *families, _OWN])


def built_in_page() -> str:
    """The page about all built-in metrics, with `k` for the cutoff and default settings."""
    return page(all_metrics(MetricOptions(k=_CUTOFF, embedder_version=_MODEL, judge_version=_JUDGE))).replace(
        str(_CUTOFF), "k"
    )


def _section(metric: Metric) -> str:
    better = "higher" if metric.higher_is_better else "lower"
    aim = "none" if metric.good_value is None else f"{metric.good_value:g}"
    if metric.good_value is not None:
        aim = ("at least " if metric.higher_is_better else "at most ") + aim
        aim += " times the ceiling" if metric.ceiling is not None else ""
    lines = [
        f"### {metric.id}\n",
        f"{_plain(metric.description)}\n",
        f"- Edge cases: {_plain(metric.edge_cases)}",
        f"- Range: 0 to 1, {better} is better. Good value: {aim}.",
        f"- Needs: {', '.join(sorted(metric.needs)) or 'nothing'}. "
        f"On unanswerable questions: {_UNANSWERABLE[metric.unanswerable]}.",
        f"- Source: {_plain(metric.source)}. Version: `{metric.version}`.\n",
    ]
    return "\n".join(lines)


def _plain(text: str) -> str:
    """The text with nothing that Markdown reads as its own."""
    for mark in "\\*_<[]`":
        text = text.replace(mark, f"\\{mark}")
    return text


if __name__ == "__main__":
    PAGE.write_text(built_in_page(), encoding="utf-8")
    sys.stdout.write(f"{PAGE}\n")
