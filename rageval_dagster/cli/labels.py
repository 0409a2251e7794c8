"""`rageval labels`: which answers people should label, their labels, and what these make of a judge's scores."""

import math
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rageval_dagster.app.opening import open_all
from rageval_dagster.cli.console import DONE_IN_PART, cell, print_json, print_table, progress_bar, say
from rageval_dagster.errors import RagevalError
from rageval_dagster.text import plural

if TYPE_CHECKING:
    from rageval_dagster.labels.answers import LabelledAnswers
    from rageval_dagster.labels.estimates import Estimate
    from rageval_dagster.labels.judges import JudgeRow

app = typer.Typer(
    help="People's labels, which correct a judge: queue, export, import, show, judges.", no_args_is_help=True
)

ClientOption = Annotated[str, typer.Option(help="The client whose answers to use.")]
RunOption = Annotated[int | None, typer.Option(help="The run's number; default: the newest complete run.")]
MetricOption = Annotated[
    str | None, typer.Option(help="The metric; default: faithfulness, by claims, judge, or overlap.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@app.command("queue")
def queue(
    client: ClientOption,
    run: RunOption = None,
    metric: MetricOption = None,
    size: Annotated[int, typer.Option(min=1, max=10_000, help="How many answers should wait for a label.")] = 60,
    as_json: JsonOption = False,
) -> None:
    """Draws answers to label, at random within strata, until --size answers wait. Answers that already wait count.

    An answer that stays the same keeps its label from run to run. Write the answers to a file with `labels export`.
    """
    from rageval_dagster.labels.answers import labelled_run
    from rageval_dagster.labels.queue import draw

    _, db = open_all()
    answers = draw(db, labelled_run(db, client, run), metric, size)
    known, waiting = len(answers.values), len(answers.waiting)
    width = _width(known + waiting)
    if as_json:
        print_json(
            {
                "run_id": answers.evaluation.id,
                "metric": answers.summary.metric_id,
                "waiting": answers.waiting,
                "labelled": known,
                "deleted": len(answers.gone),
                "expected_half_width": width,
            }
        )
        return
    print(
        f"{plural(waiting, 'answer')} of run {answers.evaluation.id} "
        f"{'waits' if waiting == 1 else 'wait'} for a label of {answers.summary.metric_id}; {known} have one"
    )
    _print_gone(answers)
    print(
        f"With all of these labels the 95 % interval is about \u00b1{width:.2f}, less if the scores agree with people."
    )
    say("next: label them in a browser, at /label of rageval serve, or in a file:")
    say(f"  rageval labels export FILE.csv --client {client} --run {answers.evaluation.id}")


@app.command("export")
def export(
    file: Annotated[Path, typer.Argument(help="A .csv or .jsonl file.")],
    client: ClientOption,
    run: RunOption = None,
    metric: MetricOption = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the file.")] = False,
) -> None:
    """Writes the drawn answers, for people to fill in `value`: 1 good, 0 bad, a number in between, or `cannot say`.

    The judge's scores are left out. The file holds people's texts: only you can read it.
    """
    from rageval_dagster.labels.answers import labelled_answers, labelled_run
    from rageval_dagster.labels.files import write_labels

    _, db = open_all()
    answers = labelled_answers(db, labelled_run(db, client, run), metric)
    if not answers.queue:
        raise RagevalError(f"no answer was drawn yet: rageval labels queue --client {client}")
    print(f"{plural(write_labels(db, answers, file, force), 'row')} written to {file}")
    _print_gone(answers)


@app.command("import")
def read(
    file: Annotated[Path, typer.Argument(help="A file that `labels export` wrote, filled in.")],
    client: ClientOption,
    person: Annotated[str | None, typer.Option(help="Who labelled the rows that do not name a person.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Imports the labels in a file. A bad row is refused, with its row and field; the rest is imported."""
    from rageval_dagster.labels.estimates import keep_estimates
    from rageval_dagster.labels.files import read_labels
    from rageval_dagster.storage.clients import get_client
    from rageval_dagster.storage.evaluations import evaluations_by_id
    from rageval_dagster.storage.labels import labelled_evaluations

    _, db = open_all()
    get_client(db, client)
    found = read_labels(db, client, file, person)
    keep_estimates(db, evaluations_by_id(db, labelled_evaluations(db, client)).values())
    if as_json:
        print_json({"saved": found.saved, "blank": found.blank, "refused": [each.to_dict() for each in found.refused]})
    else:
        for refusal in found.refused:
            say(f"refused: {cell(refusal)}")
        print(f"{plural(found.saved, 'label')} stored, {plural(found.blank, 'row')} without one")
    if found.refused:
        raise typer.Exit(DONE_IN_PART)


@app.command("show")
def show(client: ClientOption, run: RunOption = None, metric: MetricOption = None, as_json: JsonOption = False) -> None:
    """Shows what people would say about all answers: the mean corrected by labels, and how far the judge is off."""
    from rageval_dagster.labels.answers import labelled_answers, labelled_run
    from rageval_dagster.labels.estimates import estimate
    from rageval_dagster.storage.labels import labelled_evaluations
    from rageval_dagster.telling.calibration import what_comes_of
    from rageval_dagster.telling.words import metric_name

    _, db = open_all()
    if run is None:
        # After another night, the labels still stand in the run before.
        run = max(labelled_evaluations(db, client), default=None)
    answers = labelled_answers(db, labelled_run(db, client, run), metric)
    found = estimate(answers)
    if as_json:
        print_json({"run_id": answers.evaluation.id, "waiting": len(answers.waiting), **_json(found)})
        return
    print(f"run {answers.evaluation.id}, {metric_name(found.metric_id)}, {plural(len(answers.judge), 'answer')}")
    print("\n".join(f"  {line}" for line in what_comes_of(found)))
    if answers.waiting:
        print(f"  {plural(len(answers.waiting), 'answer')} drawn and not labelled yet")
    _print_gone(answers)


@app.command("judges")
def judges(
    client: ClientOption,
    metric: MetricOption = None,
    score: Annotated[
        bool,
        typer.Option(
            "--score", help="First let the judge in the settings score the labelled answers that it has not scored."
        ),
    ] = False,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Only print how many calls --score would make, and their cost, at most."),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Lists the judges that scored labelled answers: how well each agrees with people, how far it is off, its cost.

    Measure a new judge before it replaces the old one: RAGEVAL_JUDGE_MODEL=NEW rageval labels judges --score.
    """
    from rageval_dagster.cli.evaluate import print_forecasts
    from rageval_dagster.labels.judges import judges_of, labelled, score_labelled, scoring_forecast
    from rageval_dagster.storage.clients import get_client

    settings, db = open_all()
    get_client(db, client)
    own = settings.for_client(client)
    answers = labelled(db, own, client, metric)
    if dry_run:
        print_forecasts([scoring_forecast(db, own, answers)], as_json)
        return
    if score:
        with progress_bar("judging") as progress:
            score_labelled(db, own, answers, progress)
        answers = labelled(db, own, client, answers.metric_id)
    found = judges_of(db, own, answers)
    if as_json:
        print_json({"metric": answers.metric_id, "labelled": len(answers.people), "judges": [asdict(e) for e in found]})
        return
    print_table([_judge_row(each) for each in found], _JUDGE_COLUMNS, f"no judge scored {answers.metric_id}")
    print(
        f"\n{answers.metric_id}, {plural(len(answers.people), 'labelled answer')}; bias: the judge's mean less people's"
    )
    if answers.metric is not None and answers.unscored:
        say(f"next: rageval labels judges --client {client} --score (the judge of the settings lacks some answers)")


_JUDGE_COLUMNS = ("judge", "answers", "agreement", "kappa", "bias", "USD per 100", "settings")


def _judge_row(each: "JudgeRow") -> dict[str, Any]:
    return {
        "judge": ", ".join(each.models) or f"not known ({each.version})",
        "answers": each.answers,
        "agreement": each.agreement,
        "kappa": each.kappa,
        "bias": each.bias,
        "USD per 100": each.cost_usd,
        "settings": "now" if each.is_current else None,
    }


def _print_gone(answers: "LabelledAnswers") -> None:
    if answers.gone:
        print(f"{plural(len(answers.gone), 'answer')} of the queue lost their texts, and need no label any more")


def _width(labels: int) -> float:
    """Half the width of the interval that so many labels give by themselves, half of them good."""
    return 1.96 * 0.5 / math.sqrt(max(labels, 1))


def _json(found: "Estimate") -> dict[str, Any]:
    return {**asdict(found), **asdict(found.corrected), "corrected": found.corrected.mean}
