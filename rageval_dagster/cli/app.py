"""The command's tree: every group of commands is added here."""

import typer

from rageval_dagster.cli import (
    clients,
    config,
    corpus,
    datasets,
    doctor,
    evaluate,
    experiment,
    forget,
    init,
    judge,
    labels,
    metrics,
    notify,
    overview,
    report,
    runs,
    score,
    serve,
    trec,
    worker,
)

app = typer.Typer(
    name="rageval",
    help="Continuous evaluation of RAG systems: benchmarks from your documents, scores with intervals, history.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)
app.command("init")(init.init)
app.command("ingest")(corpus.ingest)
app.command("evaluate")(evaluate.evaluate)
app.command("score")(score.score)
app.command("judge")(judge.judge)
app.add_typer(datasets.app, name="datasets")
app.add_typer(runs.app, name="runs")
app.command("trec")(trec.trec)
app.add_typer(metrics.app, name="metrics")
app.add_typer(labels.app, name="labels")
app.command("notify")(notify.notify)
app.add_typer(experiment.app, name="experiment")
app.command("forget")(forget.forget)
app.add_typer(clients.app, name="clients")
app.add_typer(config.app, name="config")
app.command("status")(overview.status)
app.command("report")(report.report)
app.command("serve")(serve.serve)
app.command("worker")(worker.worker)
app.command("doctor")(doctor.doctor)
