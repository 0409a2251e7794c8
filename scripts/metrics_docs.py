"""The registry as a page of documentation: `python -m scripts.metrics_docs` writes docs/metrics.md."""

import re
import sys
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
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

Every score lies between 0 and 1. For each question, a metric gives one of three results:

- a **score**;
- **undefined**, if the metric does not apply: no evidence is known, or the answer makes no claims;
- an **error**, if the system or the metric failed. If the system failed on a question, every metric of it is an error.

Only scores enter the mean. The others are counted beside it, with their reasons.

`k` is the cutoff (`k` in rageval.toml). The *good value* is what the check `good_values` compares the mean with;
`thresholds` in rageval.toml changes it. The *version* of a metric changes whenever the score of the same result may
change: it covers parameters, embedding model, judge model and prompts. Two runs are compared only on metrics of the
same version. "Seed 000" to "seed 004" are the five earlier programs from which definitions were taken.

`rageval metrics list` shows all this for a client, `rageval metrics show ID` one metric. `rageval metrics agreement
FILE` measures how well each metric agrees with people; [Evidence](evidence.md) has such figures.
"""

_OWN = """\
## Your own metrics

Write a function that takes a batch of results and returns one value for each, and decorate it with `@metric`:

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

An entry with a colon names a metric, a list of metrics, or a function that makes them from `MetricOptions` (for
metrics that depend on `k`). All other entries are patterns; `precision_at_k` matches any cutoff. Without a pattern,
all built-in metrics run in addition to yours. A package can offer its metrics to every client by an entry point in
the group `rageval_dagster.metrics`:

```toml
[project.entry-points."rageval_dagster.metrics"]
acme = "acme_metrics:politeness"
```

The function gets only results that have what it needs. For each it returns a number from 0 to 1 (or True, False),
None for undefined, or an `Outcome`. Anything else is an error for that result. An exception, or the wrong number of
values, is an error for the whole batch. The stored reason of an exception is its class and line, `ValueError at
acme_metrics.py:12`, never its message, which may contain texts. **Reasons that you return are stored with the
scores**, for longer than texts are kept: put no text of a question, answer or document in them. Details are deleted
together with the answer's text.

An id is `family.name`, with a family of your own. A metric that needs the `embedder` gets vectors from
`tools.embed(texts)`; the model then becomes part of its version. The result maps each text to a float32 array of
shape [windows, dimension], with rows of length 1, one for each part of the text that the model can read at once. It
may have other texts too.

**Change `version` whenever the score of the same result may change**, because of the code or of a word list or model
that it reads. Stored scores of a version are never computed again, and runs with the same version are compared.
"""

_FAMILIES = {
    "retrieval": "How well the retrieved chunks, and their documents, are ranked.",
    "embedding": "Cosine similarities of question, contexts, answer and reference.",
    "lexical": "Words and numbers of the answer, compared with the reference.",
    "checks": "What a question declares about its own answer.",
    "overlap": "Token overlap of answer, reference and contexts, without a model.",
    "citation": "The citations in the answer.",
    "quality": "Heuristics, without a model.",
    "judge": "A judge model (RAGEVAL_JUDGE_MODEL) scores dimensions of the answer, with reasons.",
    "claims": "A judge model splits texts into single facts and compares them (RAGAS).",
}

_UNANSWERABLE = {
    "undefined": "undefined",
    "if_answered": "undefined unless the system answered",
    "scored": "scored",
}


def page(metrics: Iterable[Metric]) -> str:
    """The page about these metrics, in their order, as Markdown."""
    families = [_family(family, list(members)) for family, members in groupby(metrics, lambda metric: metric.family)]
    return "\n".join([_INTRODUCTION, *families, _OWN])


def built_in_page() -> str:
    """The page about all built-in metrics, with `k` for the cutoff and default settings."""
    return page(all_metrics(MetricOptions(k=_CUTOFF, embedder_version=_MODEL, judge_version=_JUDGE))).replace(
        str(_CUTOFF), "k"
    )


def _family(family: str, metrics: Sequence[Metric]) -> str:
    """A family's section. Edge cases that three or more of its metrics have stand once, at its head."""
    having: dict[str, list[str]] = defaultdict(list)
    for metric in metrics:
        for sentence in _sentences(metric.edge_cases):
            having[sentence].append(metric.id)
    shared: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for sentence, ids in having.items():
        if len(ids) > 2:
            shared[tuple(ids)].append(sentence)
    lines = [f"## {family}\n", f"{_FAMILIES[family]}\n"]
    for ids, sentences in shared.items():
        names = "All" if len(ids) == len(metrics) else ", ".join(f"`{each.partition('.')[2]}`" for each in ids)
        lines.append(f"- {names}: {_plain(' '.join(sentences))}")
    common = {sentence for sentences in shared.values() for sentence in sentences}
    return "\n".join([*lines, *([""] if shared else []), *(_section(metric, common) for metric in metrics)])


def _sentences(text: str) -> list[str]:
    return re.split(r"(?<=[.)]) (?=[A-Z`$])", text)


def _section(metric: Metric, common: Collection[str]) -> str:
    better = "Higher" if metric.higher_is_better else "Lower"
    aim = "none" if metric.good_value is None else f"{metric.good_value:g}"
    if metric.good_value is not None:
        aim = ("at least " if metric.higher_is_better else "at most ") + aim
        aim += " times the ceiling" if metric.ceiling is not None else ""
    sentences = _sentences(metric.edge_cases)
    own = [sentence for sentence in sentences if sentence not in common]
    edge_cases = _plain(" ".join(own))
    if len(own) < len(sentences):
        edge_cases = f"{edge_cases} See also [{metric.family}](#{metric.family}).".strip()
    lines = [
        f"### {metric.id}\n",
        f"{_plain(metric.description)}\n",
        f"- Edge cases: {edge_cases}",
        f"- {better} is better. Good value: {aim}.",
        f"- Needs: {', '.join(sorted(metric.needs)) or 'nothing'}. "
        f"Unanswerable questions: {_UNANSWERABLE[metric.unanswerable]}.",
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
