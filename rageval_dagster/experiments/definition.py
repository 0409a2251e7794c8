"""What an experiment is asked: its definition in TOML, checked against the client and the system that it is about."""

import difflib
import math
import os
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, ValidationError

from rageval_dagster.embedding.models import Reranker
from rageval_dagster.errors import EmbeddingError, SettingsError
from rageval_dagster.settings import BUILT_IN_SYSTEMS, RecordedDefinition, Settings
from rageval_dagster.settings.systems import Table
from rageval_dagster.storage.database import Database
from rageval_dagster.storage.experiments import Experiment
from rageval_dagster.storage.run_requests import requested

_Names = Annotated[tuple[str, ...], BeforeValidator(lambda value: [value] if isinstance(value, str) else value)]
_Share = Annotated[float, Field(ge=0.0, le=1.0)]
Value = str | int | float | bool
Configuration = Mapping[str, Value]
"""A value for each parameter."""

CHUNKING = ("chunk_size", "chunk_overlap")
"""The parameters that cut the documents anew."""

COUNT_OF_CHUNKS = (1, 1000)

CHUNK_SIZE, CHUNK_OVERLAP = 800, 120
"""As `rageval ingest` cuts where nothing is said."""

_A_NAME = "a name, between quotes"
BUILT_IN_PARAMETERS: Mapping[str, str] = {
    "chunk_size": "a whole number of characters, 0 for whole documents",
    "chunk_overlap": "a whole number of characters, 0 or more",
    "embedding_model": _A_NAME,
    "retriever": f"one of {', '.join(BUILT_IN_SYSTEMS)}",
    "dense_share": "a number from 0 to 1",
    "reranker": 'a cross-encoder\'s name or folder between quotes, or "" for none',
    "number_of_chunks": "a whole number from 1 to 1000",
    "answer_model": _A_NAME,
    "prompt": "a folder with your own answer.txt, between quotes",
}
"""The parameters of the built-in system, with what each takes."""

_IDLE: Mapping[Value, frozenset[str]] = {
    "bm25": frozenset({"embedding_model", "dense_share"}),
    "dense": frozenset({"dense_share"}),
}
"""By retriever, the parameters that make no difference to it."""


class ExperimentBudget(Table):
    """What an experiment may use: answers in all, US dollars for models, minutes. Only `answers` always holds."""

    answers: Annotated[int, Field(ge=1)] = 2000
    cost_usd: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    minutes: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None


class Definition(Table):
    """An experiment as its file defines it.

    `system` is one of the user's own, or empty for the built-in one. `objective` is a metric, empty for the default
    (see `objective_of`). `documents` is what other chunkings are cut from. `require` has the least value of a metric.
    """

    client: Annotated[str, Field(min_length=1)]
    system: str = ""
    datasets: _Names = ()
    objective: str = ""
    budget: ExperimentBudget = ExperimentBudget()
    require: dict[str, _Share] = Field(default={})
    tolerance: _Share = 0.01
    documents: Annotated[str, Field(min_length=1)] | None = None
    seed: Annotated[int, Field(ge=0, lt=2**31)] = 0
    parameters: dict[str, list[Value]]

    @property
    def configurations(self) -> int:
        """How many combinations of values there are."""
        return math.prod(len(values) for values in self.parameters.values())

    @property
    def cuts_documents(self) -> bool:
        return any(name in self.parameters for name in CHUNKING)


def definition_of(experiment: Experiment) -> Definition:
    """A stored experiment's definition."""
    return Definition.model_validate(dict(experiment.definition))


def settings_of(db: Database, settings: Settings, experiment: Experiment) -> Settings:
    """The client's settings as they were when the experiment was opened."""
    kept = requested(db, settings, experiment.client_id, experiment.run_id)
    return settings.for_client(experiment.client_id) if kept is None else kept[0]


def read_definition(path: Path, documents: Path | None = None) -> dict[str, Any]:
    """The tables of a definition's file; paths in it are relative to its folder. `documents` stands in for its own.

    Raises:
        SettingsError: there is no such file, or it is no TOML.
    """
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise SettingsError(f"{path} cannot be read ({error.strerror})") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path} is not valid TOML: {error}") from None
    experiment = tables.get("experiment")
    if isinstance(experiment, dict):
        own = experiment.get("documents")
        if isinstance(own, str) and own:
            experiment["documents"] = _resolved(own, path.absolute().parent, f"{path.name} [experiment] documents")
        if documents is not None:
            experiment["documents"] = _resolved(str(documents), Path.cwd(), "--documents")
    parameters = tables.get("parameters")
    # A system of the user's own knows what its prompt is; it need not be a folder.
    is_own = isinstance(experiment, dict) and experiment.get("system")
    if not is_own and isinstance(parameters, dict) and isinstance(parameters.get("prompt"), list):
        where = f"{path.name} [parameters] prompt"
        parameters["prompt"] = [
            _resolved(each, path.absolute().parent, where) if isinstance(each, str) and each.strip() else each
            for each in parameters["prompt"]
        ]
    if not is_own and isinstance(parameters, dict):
        for name in ("embedding_model", "reranker"):
            if isinstance(parameters.get(name), list):
                parameters[name] = [_absolute(each, path.absolute().parent) for each in parameters[name]]
    return tables


def _absolute(model: Any, folder: Path) -> Any:
    """A model that is a folder beside the definition, by its whole path; a name as it is."""
    is_folder = isinstance(model, str) and model.strip() and os.path.isdir(folder / model)  # noqa: PTH112 (never raises)
    return str((folder / model).resolve()) if is_folder else model


def _resolved(name: str, folder: Path, where: str) -> str:
    """The absolute path of a file or folder that is there."""
    try:
        found = (folder / Path(name).expanduser()).resolve()
        if found.exists():
            return str(found)
    except (OSError, ValueError, RuntimeError):  # too long, no file's name, a user that is not there
        found = name
    raise SettingsError(f"{where}: there is no file or folder {str(found)[:200]!r}")


def parse_definition(tables: Mapping[str, Any], where: str) -> Definition:
    """The definition that the tables `experiment` and `parameters` make; `where` names them in errors.

    Raises:
        SettingsError: the first thing that is wrong: its place, and what it takes.
    """
    _check_names(tables, ["experiment", "parameters"], where, "table", brackets=True)
    experiment = tables.get("experiment")
    if not isinstance(experiment, Mapping):
        raise SettingsError(f'{where}: there is no table [experiment]; it names at least a client = "NAME"')
    known = [name for name in Definition.model_fields if name != "parameters"]
    _check_names(experiment, known, f"{where} [experiment]", "setting")
    if isinstance(experiment.get("budget"), Mapping):
        _check_names(experiment["budget"], list(ExperimentBudget.model_fields), f"{where} budget", "setting")
    parameters = tables.get("parameters")
    if not isinstance(parameters, Mapping) or not parameters:
        raise SettingsError(f"{where}: there is nothing to search: name values under [parameters], as in k = [3, 5]")
    for name, values in parameters.items():
        here = f"{where} [parameters] {name}"
        if not isinstance(values, list) or not values:
            raise SettingsError(f"{here}: takes a list of values, such as [3, 5], not {values!r}")
        if not all(isinstance(value, str | int | float | bool) for value in values):
            raise SettingsError(f"{here}: values are texts, numbers, true or false")
        unfit = next((each for each in values if isinstance(each, float) and not math.isfinite(each)), None)
        if unfit is not None:
            raise SettingsError(f"{here}: {unfit} is not a number that can be compared; leave it out")
        if len({(type(value), value) for value in values}) < len(values):
            raise SettingsError(f"{here}: names a value twice")
    try:
        return Definition.model_validate({**experiment, "parameters": dict(parameters)})
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise SettingsError(f"{where} [experiment] {place}: {first['msg'].lower()}") from None


def check_definition(definition: Definition, settings: Settings, where: str) -> None:
    """Refuses parameters that the system does not have, and values that they do not take.

    Args:
        settings: the client's.

    Raises:
        SettingsError: what is wrong, where, and what is right.
    """
    if definition.system in BUILT_IN_SYSTEMS:
        raise SettingsError(
            f"{where} [experiment] system: {definition.system!r} is built in: leave system out, and name it under "
            f'[parameters]: retriever = ["{definition.system}"]'
        )
    if definition.system:
        _check_own(definition, settings, where)
    else:
        _check_built_in(definition, settings, where)
    pattern = definition.documents
    if pattern is not None and not Path(pattern).exists():
        raise SettingsError(f"{where} [experiment] documents: there is no file or folder {pattern}")
    for folder in (settings.home, settings.report_dir):
        if pattern is not None and isinstance(folder, Path) and _reaches(Path(pattern).resolve(), folder.resolve()):
            raise SettingsError(
                f"{where} [experiment] documents: {pattern} reaches into {folder}, where the texts of all clients are; "
                "name a folder with this client's documents only"
            )
    if definition.cuts_documents and pattern is None:
        name = next(name for name in CHUNKING if name in definition.parameters)
        raise SettingsError(
            f"{where} [parameters] {name}: documents are split again for each value, so name their files: "
            'documents = "PATH" under [experiment], or --documents PATH'
        )


def _reaches(documents: Path, folder: Path) -> bool:
    """Whether reading documents would read files of a folder; what is hidden is not read."""
    if documents.is_relative_to(folder):
        return True
    return folder.is_relative_to(documents) and not any(
        part.startswith(".") for part in folder.relative_to(documents).parts
    )


def _check_own(definition: Definition, settings: Settings, where: str) -> None:
    own = settings.systems.get(definition.system)
    if own is None:
        near = _nearest(definition.system, list(settings.systems))
        raise SettingsError(f"{where} [experiment] system: rageval.toml defines no system {definition.system!r}{near}")
    if isinstance(own, RecordedDefinition):
        raise SettingsError(
            f"{where} [experiment] system: {definition.system!r} is a file of recorded answers: nothing can be varied"
        )
    known = ["number_of_chunks", *own.params]
    for name in definition.parameters:
        if name not in known:
            raise SettingsError(
                f"{where} [parameters] {name}: system {definition.system!r} has no such parameter"
                f"{_nearest(name, known)}; its own are named in rageval.toml: params = {{ {name} = ... }}, and used as "
                f"{{param.{name}}} or as an argument of the function"
            )
    for value in definition.parameters.get("number_of_chunks", []):
        if not _is_whole(value, *COUNT_OF_CHUNKS):
            takes = BUILT_IN_PARAMETERS["number_of_chunks"]
            raise SettingsError(f"{where} [parameters] number_of_chunks: takes {takes}, not {value!r}")
    _check_count(definition, where)


def _check_built_in(definition: Definition, settings: Settings, where: str) -> None:
    for name, values in definition.parameters.items():
        here = f"{where} [parameters] {name}"
        if name not in BUILT_IN_PARAMETERS:
            raise SettingsError(
                f"{here}: the built-in system has no such parameter{_nearest(name, list(BUILT_IN_PARAMETERS))}; for a "
                'system of your own, name it under [experiment]: system = "NAME"'
            )
        takes = BUILT_IN_PARAMETERS[name]
        for value in values:
            if name in (*CHUNKING, "number_of_chunks"):
                fits = _is_whole(value, *(COUNT_OF_CHUNKS if name == "number_of_chunks" else (0, 10_000_000)))
            elif name == "retriever":
                fits = value in BUILT_IN_SYSTEMS
            elif name == "dense_share":
                fits = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1
            else:
                fits = isinstance(value, str) and (bool(value.strip()) or name == "reranker")
            if not fits:
                raise SettingsError(f"{here}: takes {takes}, not {value!r}")
            if name == "reranker" and value:
                try:
                    Reranker(str(value))
                except EmbeddingError as error:
                    raise SettingsError(f"{here}: {error}") from None
    retrievers = definition.parameters.get("retriever", [built_in_retriever(settings)])
    for name in definition.parameters:
        if all(name in _IDLE.get(retriever, ()) for retriever in retrievers):
            raise SettingsError(
                f"{where} [parameters] {name}: makes no difference to {', '.join(map(str, retrievers))}; name a "
                'retriever that it affects, as in retriever = ["hybrid"]'
            )
    if "answer_model" in definition.parameters and settings.llm == "forbidden":
        raise SettingsError(f"{where} [parameters] answer_model: llm is forbidden for client {definition.client!r}")
    if "prompt" in definition.parameters:
        if settings.answer_model is None and "answer_model" not in definition.parameters:
            raise SettingsError(
                f"{where} [parameters] prompt: no model reads it: set RAGEVAL_ANSWER_MODEL, or search answer_model, too"
            )
        from rageval_dagster.llm.prompts import load_prompt

        for folder in definition.parameters["prompt"]:
            load_prompt("answer", Path(str(folder)))
    sizes = definition.parameters.get("chunk_size", [CHUNK_SIZE])
    overlaps = definition.parameters.get("chunk_overlap", [CHUNK_OVERLAP])
    if definition.cuts_documents and not any(_possible(size, overlap) for size in sizes for overlap in overlaps):
        raise SettingsError(f"{where} [parameters] chunk_overlap: at least one must be less than a chunk_size")
    _check_count(definition, where)


def built_in_retriever(settings: Settings) -> str:
    """The built-in system that the client evaluates, else `dense`."""
    return next((name for name in settings.system if name in BUILT_IN_SYSTEMS), "dense")


def _is_whole(value: Value, least: int, most: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


def _check_count(definition: Definition, where: str) -> None:
    if definition.configurations < 2:
        raise SettingsError(f"{where} [parameters]: there is only one configuration: name more values to choose among")


def without_idle(configuration: Configuration) -> dict[str, Value]:
    """A configuration without the parameters that make no difference to its retriever."""
    idle = _IDLE.get(configuration.get("retriever", ""), frozenset())
    return {name: value for name, value in configuration.items() if name not in idle}


def why_impossible(configuration: Configuration) -> str | None:
    """Why there is no such configuration; None where there is."""
    size, overlap = configuration.get("chunk_size", CHUNK_SIZE), configuration.get("chunk_overlap", CHUNK_OVERLAP)
    cuts = not configuration.keys().isdisjoint(CHUNKING)
    if not cuts or _possible(size, overlap):
        return None
    return f"an overlap of {overlap} is not less than the chunk size {size}"


def _possible(size: Value, overlap: Value) -> bool:
    return not size or float(overlap) < float(size)


def objective_of(definition: Definition, settings: Settings) -> str:
    """The metric that decides: as defined, else faithfulness, by a judge model where one is set."""
    if definition.objective:
        from rageval_dagster.metrics.registry import SHORT_NAMES

        return SHORT_NAMES.get(definition.objective, definition.objective)
    return "overlap.faithfulness" if settings.judge_model is None else "claims.faithfulness"


def _check_names(given: Mapping[str, Any], known: Sequence[str], where: str, what: str, brackets: bool = False) -> None:
    for name in given:
        if name not in known:
            shown = f"[{name}]" if brackets else repr(name)
            listed = ", ".join(f"[{each}]" if brackets else each for each in known)
            raise SettingsError(f"{where}: there is no {what} {shown}{_nearest(name, known)}; known: {listed}")


def _nearest(name: str, known: Sequence[str]) -> str:
    near = difflib.get_close_matches(name, known, n=1)
    return f" (did you mean {near[0]}?)" if near else ""
