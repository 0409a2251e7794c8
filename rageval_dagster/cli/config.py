"""`rageval config show`: every setting, its value, and where it comes from."""

import re
from typing import Annotated, Any

import typer
from pydantic import BaseModel

from rageval_dagster.cli.console import print_json, print_table, say
from rageval_dagster.settings import HttpDefinition, Settings, describe, load_settings

app = typer.Typer(help="Settings: show.", no_args_is_help=True)

_CREDENTIALS = re.compile(r"(?<=://)[^/@\s]+@")
_QUERY = re.compile(r"(https?://[^\s?#]*)[?#]\S*")


@app.command("show")
def show(
    client: Annotated[str | None, typer.Option(help="Show the values that apply to this client.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Shows every setting, its value, and where the value comes from; for secrets, only whether they are set."""
    from rageval_dagster.app.clients import require_client

    settings = load_settings()
    if client is not None:
        require_client(settings, client, say)
    fields = {field.alias or name: name for name, field in Settings.model_fields.items()}
    rows = [
        {
            "setting": fields[setting.name],
            "variable": setting.name if setting.name != fields[setting.name] else None,
            "from": setting.source,
            "value": _shown(settings, setting.value),
        }
        for setting in describe(settings, client)
    ]
    if as_json:
        print_json(rows)
        return
    lines = [line for row in rows for line in _lines(row)]
    print_table(lines, list(lines[0]), "")


def _lines(row: dict[str, Any]) -> list[dict[str, Any]]:
    """The row, and where its value is a table one for each entry of that."""
    value = row["value"]
    if not isinstance(value, dict):
        return [{**row, "value": _spoken(value)}]
    if not value:
        return [{**row, "value": "none"}]
    return [{**row, "setting": f"{row['setting']}.{name}", "value": _spoken(entry)} for name, entry in value.items()]


def _spoken(value: Any) -> str:
    match value:
        case None:
            return "not set"
        case bool():
            return str(value).lower()
        case list():
            return ", ".join(map(_spoken, value)) or "none"
        case dict():
            return "; ".join(f"{name}: {_spoken(entry)}" for name, entry in value.items())
    return str(value)


def _shown(settings: Settings, value: Any) -> Any:
    """The value without what may be secret in it."""
    if isinstance(value, str):
        return without_secrets(value)
    if isinstance(value, dict):
        return {name: _shown(settings, entry) for name, entry in value.items()}
    if isinstance(value, tuple):
        return list(value)
    return _system(settings, value) if isinstance(value, BaseModel) else value


def without_secrets(text: str) -> str:
    """The text with URLs that name neither user nor password nor query, any of which may be a secret."""
    return _QUERY.sub(r"\1?...", _CREDENTIALS.sub("...@", text))


def _system(settings: Settings, definition: BaseModel) -> dict[str, Any]:
    """What a definition says, without its headers' values and its request: they may hold what should be a secret."""
    if not isinstance(definition, HttpDefinition):
        return definition.model_dump(mode="json", exclude={"response"}, exclude_none=True)
    variables = {"Authorization": definition.auth_env, **definition.headers_env}
    return {
        "kind": definition.kind,
        "url": f"{definition.method} {without_secrets(definition.url)}",
        "headers": [
            *definition.headers,
            *(
                f"{header} from {variable} ({'set' if settings.source.secret(variable) else 'not set'})"
                for header, variable in variables.items()
                if variable is not None
            ),
        ],
        **definition.model_dump(
            mode="json", include={"stream", "timeout_s", "concurrency", "rate_per_s", "version"}, exclude_none=True
        ),
    }
