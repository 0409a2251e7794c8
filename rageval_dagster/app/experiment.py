"""Experiments: forecast, run, looked at, applied."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from rageval_dagster.errors import RagevalError
from rageval_dagster.evaluation.forecast import Calls, judge_calls_of, work_of
from rageval_dagster.experiments.applying import Tables, command_for, settings_for, write_into
from rageval_dagster.experiments.copies import forecast_copies, run_alone
from rageval_dagster.experiments.definition import definition_of, read_definition, settings_of
from rageval_dagster.experiments.opening import Asked, characters_of, checked, opened
from rageval_dagster.experiments.results import summary_of
from rageval_dagster.experiments.standing import standing
from rageval_dagster.llm.endpoints import Role
from rageval_dagster.report.experiment import finish, is_finished
from rageval_dagster.settings import Settings
from rageval_dagster.storage.database import Database
from rageval_dagster.storage.experiments import Experiment, get_experiment, list_experiments


def check(settings: Settings, db: Database, file: Path, documents: Path | None) -> Asked:
    """A definition's file, checked; see `experiments.opening.checked`."""
    return checked(db, settings, read_definition(file, documents), file.name)


def forecast(db: Database, asked: Asked) -> dict[str, Any]:
    """The upper bound of what an experiment takes; nothing is asked or kept. What is cached already is counted, too."""
    definition, settings = asked.definition, asked.settings
    most = min(definition.budget.answers, len(asked.space) * len(asked.items))
    k = max([int(value) for value in definition.parameters.get("number_of_chunks", [settings.k])])
    asks_model = not definition.system and (settings.answer_model or "answer_model" in definition.parameters)
    answers = Calls(most * (2 if settings.verification_enabled else 1), most) if asks_model else Calls()
    judged = most * settings.judge_repeats * judge_calls_of([asked.objective])
    by_setup = settings
    if settings.answer_model is None and "answer_model" in definition.parameters:
        by_setup = settings.model_copy(update={"answer_model": definition.parameters["answer_model"][0]})
    calls: dict[Role, Calls] = {"answer": answers, "judge": Calls(judged, judged)}
    work = [each for role in calls if (each := work_of(db, by_setup, definition.client, role, calls[role], k))]
    costs = [each["cost_usd"] for each in work]
    characters = 0 if definition.documents is None else characters_of(Path(definition.documents))
    return {
        "client": definition.client,
        "objective": asked.objective_id,
        "configurations": len(asked.space),
        "questions": len(asked.items),
        "questions left out": asked.left_out,
        "answers at most": most,
        "answer calls": answers.most,
        "judge calls": judged,
        "tokens": sum(each["tokens"] for each in work),
        "cost_usd": None if None in costs else sum(costs),
        **forecast_copies(settings, definition, asked.cuts, characters),
    }


def run(
    settings: Settings,
    db: Database,
    asked: Asked,
    on_round: Callable[[int, int], None],
    tell: Callable[[str], None],
) -> dict[str, Any]:
    """Runs an experiment to its end, or goes on with one of the same content; gives its `summary_of`.

    Raises:
        InterruptedRunError: somebody stopped it.
        LeaseHeldError: somebody else runs it.
        RagevalError: a run failed; what was asked is kept.
    """
    from rageval_dagster.automation.experiments import run_experiment
    from rageval_dagster.definitions import defs

    experiment = opened(db, settings, asked, "command")
    with run_alone(settings, experiment):
        if experiment.ended_at is None:
            tell(f"experiment {experiment.number} of client {experiment.client_id}: {len(asked.space)} configurations")
            run_experiment(defs, settings, db, experiment.number, on_round, asked.definition.budget.minutes)
        if not is_finished(settings, get_experiment(db, experiment.number)):
            tell(f"report: {finish(db, settings, experiment.number)}")
        else:
            tell(f"experiment {experiment.number} was finished before; nothing about it has changed")
    return summary(db, experiment.number)


def summary(db: Database, number: int) -> dict[str, Any]:
    """What came of an experiment so far."""
    return summary_of(db, standing(db, get_experiment(db, number)))


def listed(db: Database, client: str | None) -> list[Experiment]:
    return list_experiments(db, client)


def application(settings: Settings, db: Database, number: int, configuration: int | None) -> tuple[Tables, str | None]:
    """The settings that make a configuration the client's, by default the recommended one, and a command to go with it.

    Raises:
        RagevalError: there is no such configuration, or none is recommended.
    """
    experiment = get_experiment(db, number)
    now = standing(db, experiment)
    chosen = now.recommended if configuration is None else configuration
    if chosen is None:
        raise RagevalError(f"experiment {number} recommends nothing: rageval experiment show {number}")
    trial = next((trial for trial in now.found.trials if trial.number == chosen), None)
    if trial is None:
        raise RagevalError(f"experiment {number} tried no configuration {chosen}: rageval experiment show {number}")
    definition, own = definition_of(experiment), settings_of(db, settings, experiment)
    return settings_for(definition, own, trial.configuration), command_for(definition, trial.configuration)


def write(settings: Settings, tables: Tables) -> Path:
    """Writes settings into the rageval.toml in use; gives the file."""
    file = settings.source.config_file
    write_into(file, tables)
    return file
