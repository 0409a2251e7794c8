"""Reading settings: which layer gives a value, what a wrong one is told, and what belongs to one client alone.

From the strongest to the weakest: a client's table in rageval.toml, the environment, `.env`, `[defaults]` in
rageval.toml, the built-in default.
"""

import copy
import difflib
import os
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import SecretStr, ValidationError

from rageval_dagster.errors import SettingsError
from rageval_dagster.settings.model import Setting, Settings, unset
from rageval_dagster.settings.systems import DEFINITIONS

CONFIG_FILE = "rageval.toml"
CONFIG_VARIABLE = "RAGEVAL_CONFIG"

_BUILT_IN = "default"
_DEFAULTS = "[defaults]"
_MERGED = ("systems", "thresholds", "judge_weights")
"""Tables of which a client may change one part; all else is replaced as a whole."""

_OUR_VARIABLES = ("RAGEVAL_", "EVALUATION_", "RAG__")
_OTHER_VARIABLES = {CONFIG_VARIABLE, "RAGEVAL_TEST_POSTGRES_URL", "RAGEVAL_TEST_MYSQL_URL", "RAGEVAL_DATA_DIR"}


@dataclass(frozen=True)
class _Layer:
    """Values by field name, each with the words that name its place; and what is wrong with other entries.

    `variables` are the names of those that hold its secrets.
    """

    values: Mapping[str, Any]
    places: Mapping[str, str]
    problems: Sequence[str] = ()
    variables: Mapping[str, str] | None = None


class _Variables(dict[str, str]):
    """Variables by name. Shown without their values: any of them may be a secret."""

    def __repr__(self) -> str:
        return f"<{len(self)} variables>"


class SettingsSource:
    """All layers of one working directory; makes the settings of each client from them."""

    def __init__(self, environment: Mapping[str, str], env_file: Path, config_file: Path | None) -> None:
        dotenv = _read_env_file(env_file)
        self.variables = _Variables({**dotenv, **environment})
        named = self.variables.get(CONFIG_VARIABLE)
        self.config_file = config_file or Path(named or CONFIG_FILE).expanduser().absolute()
        document = _read_toml(self.config_file, required=config_file is not None or bool(named))
        unknown = sorted(set(document) - {"defaults", "clients", *Settings.tables()})
        if unknown:
            tables = "".join(f", [{name}]" for name in Settings.tables())
            raise SettingsError(
                f"{self.config_file.name}: there is no table [{unknown[0]}]; known: [defaults], [clients.NAME]{tables}"
            )
        self._environment = self._read_variables(environment, "environment")
        self._dotenv = self._read_variables(dotenv, str(env_file))
        self._defaults = self._read_table(document.get("defaults", {}), _DEFAULTS)
        own_tables = {name: document[name] for name in Settings.tables() if name in document}
        self._tables = _Layer(own_tables, {name: f"{self.config_file.name} [{name}]" for name in own_tables})
        # Each is read when it is asked for: one client's mistake stops no other.
        self._clients = _table_of(document.get("clients", {}), "[clients]", self.config_file)
        self._made: dict[str | None, Settings] = {}
        self._frozen: dict[str, Settings] = {}

    def settings(self, client_id: str | None = None) -> Settings:
        """The settings of a client, or those that hold for all.

        Raises:
            SettingsError: of everything that is wrong its place and what it takes.
        """
        if client_id in self._frozen:
            return self._frozen[client_id]
        own = client_id if client_id in self._clients else None
        if own not in self._made:
            settings = _validated(*_merged(layers := self._layers(own)), layers)
            if own is not None and settings.client_field is None:
                self._check_collection(own, settings.collection)
            self._made[own] = settings.bound(self)
        return self._made[own]

    def to_freeze(self, client_id: str) -> dict[str, Any]:
        """What of a client's settings decides what a run measures, as JSON takes it, without what is not set.

        Of a secret it is the name of its variable.
        """
        settings = self.settings(client_id)
        names = set(Settings.of_a_run())
        secrets = {name for name in names if is_secret(Settings.model_fields[name].annotation)}
        variables: dict[str, str] = {}
        for layer in self._layers(client_id):
            variables |= layer.variables or {}
        return {
            **settings.model_dump(mode="json", include=names - secrets, exclude_unset=True),
            **{f"{name}_env": variable for name, variable in variables.items() if name in secrets},
        }

    def frozen(self, client_id: str, values: Mapping[str, Any]) -> Settings:
        """A client's settings with those that `to_freeze` gave as they were then; all else is as it is now.

        They stay the client's, whichever settings are asked for them.
        """
        layers = self._layers(client_id)
        then = self._read_table(values, "as the run was asked for")
        now, places = _merged(layers)
        names = set(Settings.of_a_run())
        source = copy.copy(self)
        settings = _validated(
            {**{name: value for name, value in now.items() if name not in names}, **then.values},
            {**places, **then.places},
            [*layers, then],
        )
        source._frozen = {client_id: settings.bound(source)}
        return source._frozen[client_id]

    @property
    def client_names(self) -> tuple[str, ...]:
        """The clients that have a table of their own."""
        return tuple(self._clients)

    def collections(self) -> dict[str, str]:
        """Collection -> the client whose table names it."""
        return {str(collection): client_id for client_id, collection in self._own_collections()}

    def _own_collections(self) -> list[tuple[str, Any]]:
        """(client, collection) of every client's table that names one."""
        tables = [(name, table) for name, table in self._clients.items() if isinstance(table, Mapping)]
        return [(name, table["collection"]) for name, table in tables if "collection" in table]

    def described(self, client_id: str | None) -> list[Setting]:
        settings = self.settings(client_id)
        _, places = _merged(self._layers(client_id))
        found = []
        for name, field in Settings.model_fields.items():
            value = getattr(settings, name)
            if is_secret(field.annotation):
                value = "set" if value is not None else None
            found.append(Setting(field.alias or name, value, places.get(name, _BUILT_IN)))
        return found

    def secret(self, variable: str) -> SecretStr | None:
        """The secret that a variable, or the file that NAME_FILE names, holds; None where neither is set."""
        if self.variables.get(variable):
            return SecretStr(self.variables[variable].strip())
        file_name = self.variables.get(f"{variable}_FILE")
        return _read_secret(variable, file_name) if file_name else None

    def unknown_variables(self) -> list[str]:
        """Variables that look like ours and mean nothing, each with the one that may be meant."""
        known = {str(field.alias) for field in Settings.model_fields.values() if field.alias} | _OTHER_VARIABLES
        known |= {f"{name}_FILE" for name in known}
        strange = (name for name in self.variables if name.startswith(_OUR_VARIABLES) and name not in known)
        return [f"{name} is no setting{_suggestion(name, known)}" for name in sorted(strange)]

    def _check_collection(self, client_id: str, collection: str | None) -> None:
        """Without a client field a collection is one client's: another one would be evaluated on its documents."""
        others = [name for name, other in self._own_collections() if other == collection and name != client_id]
        if others:
            raise SettingsError(
                f"{self.config_file.name}: [clients.{client_id}] and [clients.{others[0]}] name the same collection "
                f"{collection!r}: give each its own"
            )

    def _layers(self, client_id: str | None) -> list[_Layer]:
        """From the weakest to the strongest; the client's own table, if it has one, last."""
        layers = [self._tables, self._defaults, self._dotenv, self._environment]
        if client_id is None or client_id not in self._clients:
            return layers
        return [*layers, self._read_table(self._clients[client_id], f"[clients.{client_id}]", client=True)]

    def _read_variables(self, variables: Mapping[str, str], place: str) -> _Layer:
        values: dict[str, Any] = {}
        secrets: dict[str, str] = {}
        for name, field in Settings.model_fields.items():
            variable, secret = field.alias or "", is_secret(field.annotation)
            if value := variables.get(variable, "").strip():
                # A secret is none in plain text from here on: no traceback shows it.
                values[name] = SecretStr(value) if secret else value
            elif secret and (file_name := variables.get(f"{variable}_FILE")):
                values[name] = _read_secret(variable, file_name)
            if secret and name in values:
                secrets[name] = variable
        return _Layer(values, dict.fromkeys(values, place), variables=secrets)

    def _read_table(self, table: Any, place: str, client: bool = False) -> _Layer:
        where = f"{self.config_file.name} {place}"
        values: dict[str, Any] = {}
        secrets: dict[str, str] = {}
        problems: list[str] = []
        allowed = Settings.of_a_client() if client else Settings.of_the_file()
        for key, value in _table_of(table, place, self.config_file).items():
            name = key.removesuffix("_env") if key.endswith("_env") else key
            field = Settings.model_fields.get(name)
            secret = field is not None and is_secret(field.annotation)
            if secret and key == name:
                problems.append(f"{where}: {key} is a secret and never stands here; name its variable: {key}_env")
            elif field is None or secret != (key != name) or name not in allowed:
                known = [
                    f"{each}_env" if is_secret(Settings.model_fields[each].annotation) else each for each in allowed
                ]
                elsewhere = (
                    f" ({key} holds for all clients: [defaults])" if client and name in Settings.of_the_file() else ""
                )
                problems.append(f"{where}: there is no {key!r}{elsewhere or _suggestion(key, known)}")
            elif not secret:
                values[name] = value
            elif (found := self.secret(value) if isinstance(value, str) else None) is not None:
                values[name], secrets[name] = found, value
            else:
                problems.append(f"{where}: {key} names {unset(str(value))}")
        return _Layer(values, dict.fromkeys(values, where), problems, secrets)


def load_settings(
    environment: Mapping[str, str] | None = None, env_file: Path | None = None, config_file: Path | None = None
) -> Settings:
    """Reads the settings that hold for all clients; `settings.for_client(NAME)` gives those of one.

    The environment is read, `.env` of the working directory, and rageval.toml there (or where RAGEVAL_CONFIG says, with
    `.env` beside it if the working directory has none).
    An empty value counts as not set. A secret may come from a file: NAME_FILE names it.

    Raises:
        SettingsError: naming the variable or the place in the file, the value unless secret, and what it takes.
    """
    given = _Variables(os.environ if environment is None else environment)
    here, named = Path(".env"), given.get(CONFIG_VARIABLE)
    beside = here if here.exists() or not named else Path(named).expanduser().parent / here
    return SettingsSource(given, env_file or beside, config_file).settings()


def describe(settings: Settings, client_id: str | None) -> list[Setting]:
    """Every setting as it holds for a client (None: for all), with where it comes from."""
    return settings.source.described(client_id)


def is_secret(annotation: Any) -> bool:
    return annotation == (SecretStr | None)


def _merged(layers: Iterable[_Layer]) -> tuple[dict[str, Any], dict[str, str]]:
    values: dict[str, Any] = {}
    places: dict[str, str] = {}
    for layer in layers:
        for name, value in layer.values.items():
            if name in _MERGED and isinstance(value, Mapping) and isinstance(values.get(name), Mapping):
                values[name] = _over(values[name], value)
                places[name] = f"{places[name]}, {layer.places[name]}"
            else:
                values[name], places[name] = value, layer.places[name]
    return values, places


def _validated(values: dict[str, Any], places: dict[str, str], layers: Sequence[_Layer]) -> Settings:
    problems = [problem for layer in layers for problem in layer.problems]
    try:
        settings = Settings.model_validate(values)
    except ValidationError as error:
        raise SettingsError("; ".join([*problems, *_explained(error, values, places)])) from None
    if problems:
        raise SettingsError("; ".join(problems))
    return settings


def _over(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(below)
    for key, value in above.items():
        known = merged.get(key)
        merged[key] = value
        # Another kind of system, or another request, is a whole of its own.
        if isinstance(value, Mapping) and isinstance(known, Mapping) and key != "request":
            merged[key] = _over(known, value) if value.get("kind") in (None, known.get("kind")) else value
    return merged


def _explained(error: ValidationError, values: Mapping[str, Any], places: Mapping[str, str]) -> Iterable[str]:
    for entry in error.errors():
        name, *inner = [part for part in entry["loc"] if part not in ("http", "callable", "recorded")]
        field_name = str(name)
        if field_name not in Settings.model_fields:
            field_name = next(key for key, field in Settings.model_fields.items() if field.alias == name)
        field = Settings.model_fields[field_name]
        place = places.get(field_name, "")
        spoken = str(field.alias) if field.alias and "[" not in place else f"{place}: {field_name}"
        if inner:
            spoken = ".".join([spoken, *map(str, inner)])
            takes = _problem(entry) + _near_field(entry)
        else:
            takes = f"takes {field.description}"
        given = values.get(field_name) if not inner else None
        shown = "" if is_secret(field.annotation) or given is None else f", not {given!r}"
        yield f"{spoken} {takes}{shown}"


def _problem(entry: Any) -> str:
    """What is wrong inside a table, without its value: that may be what should have been a secret."""
    kinds = {
        "missing": "is missing",
        "extra_forbidden": "is not a field here",
        "union_tag_invalid": "takes kind = http, callable or recorded",
        "union_tag_not_found": "has no kind (http, callable or recorded)",
        "string_pattern_mismatch": "does not have its form: https://host/path, package.module:function",
    }
    said = entry["msg"].removeprefix("Value error, ")
    return kinds.get(entry["type"], f"takes {said[0].lower()}{said[1:]}" if entry["type"] == "value_error" else said)


def _near_field(entry: Any) -> str:
    """The field of a system's table that may be meant by one that is none."""
    place = entry["loc"]
    if entry["type"] != "extra_forbidden" or place[0] != "systems":
        return ""
    _, _, kind, *inner, name = place
    table: Any = DEFINITIONS[kind]
    for part in inner:
        table = table.model_fields[part].annotation
    return _suggestion(str(name), table.model_fields)


def _suggestion(name: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(name, list(known), n=1)
    return f"; did you mean {near[0]}?" if near else ""


def _table_of(value: Any, place: str, file: Path) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise SettingsError(f"{file.name}: {place} takes a table")
    return value


def _read_toml(path: Path, required: bool) -> Mapping[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        if required:
            raise SettingsError(f"{CONFIG_VARIABLE}: there is no file {path}") from None
        return {}
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"{path} is not TOML: {error}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(_unreadable(path, error)) from None


def _read_env_file(path: Path) -> _Variables:
    if not path.is_file():
        return _Variables()
    from dotenv import dotenv_values

    try:
        values = dotenv_values(path)
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(_unreadable(path, error)) from None
    return _Variables({name: value for name, value in values.items() if value is not None})


def _read_secret(variable: str, file_name: str) -> SecretStr:
    try:
        return SecretStr(Path(file_name).read_text(encoding="utf-8").strip())
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"{variable}_FILE: cannot read {file_name} ({_why(error)})") from None


def _unreadable(path: Path, error: OSError | UnicodeDecodeError) -> str:
    return f"{path} cannot be read ({_why(error)}); it is a file of UTF-8 that you may read"


def _why(error: OSError | UnicodeDecodeError) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or "not UTF-8"
