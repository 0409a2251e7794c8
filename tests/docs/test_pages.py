"""What the pages say is so: links lead somewhere, and tables say what the program does."""

import re
from pathlib import Path

import pytest
from pydantic import SecretStr

from rageval_dagster.api import make_app
from rageval_dagster.definitions import defs
from rageval_dagster.llm.endpoints import endpoint_of
from rageval_dagster.rag.external import load_external
from rageval_dagster.settings import Settings, load_settings
from rageval_dagster.storage.database import open_database
from tests.docs.pages import PAGES, ROOT, anchors, blocks, table, text_of

OF_TESTS = {"RAGEVAL_TEST_POSTGRES_URL", "RAGEVAL_TEST_MYSQL_URL"}
FIELDS = Settings.model_fields


@pytest.mark.parametrize("page", PAGES)
def test_every_link_leads_somewhere(page: str) -> None:
    broken = []
    for target in re.findall(r"\]\(([^)\s]+)\)", text_of(page)):
        path, _, anchor = target.partition("#")
        if target.startswith("http"):
            continue
        aim = (ROOT / page).parent / path if path else ROOT / page
        if not aim.exists() or (anchor and anchor not in anchors(str(aim.resolve().relative_to(ROOT)))):
            broken.append(target)
    assert broken == []


def test_every_page_is_reached_from_the_readme() -> None:
    """By links that lead from one page to the next."""
    reached, coming = set(), ["README.md"]
    while coming:
        page = coming.pop()
        if page in reached:
            continue
        reached.add(page)
        for target in re.findall(r"\]\(([^)#\s]+\.md)[^)]*\)", text_of(page)):
            coming.append(str(((ROOT / page).parent / target).resolve().relative_to(ROOT)))
    assert set(PAGES) <= reached


@pytest.mark.parametrize("page", PAGES)
def test_every_variable_that_is_named_is_a_setting(page: str) -> None:
    known = {field.alias for field in FIELDS.values()} | OF_TESTS | {"RAGEVAL_CONFIG"}
    named = set(re.findall(r"\b((?:RAGEVAL|EVALUATION|OPENAI|RAG_)_[A-Z_]+[A-Z])\b", text_of(page)))
    assert {name.removesuffix("_FILE") for name in named} - known == set()


def rows_of_settings() -> list[list[str]]:
    headings = re.findall(r"^## .+$", text_of("docs/settings.md"), flags=re.MULTILINE)
    return [row for heading in headings for row in table("docs/settings.md", heading)]


def test_every_setting_has_a_row_with_its_variable_and_where_it_may_stand() -> None:
    said: dict[str, tuple[str, bool]] = {}
    for names, variable, _, _, per_client in rows_of_settings():
        for name in re.findall(r"`(\w+)`", names) or [variable.strip("`")]:
            said[name] = (variable.strip("`"), per_client == "yes")
    own, shared = Settings.of_a_client(), Settings.of_the_file()
    expected = {}
    for name, field in FIELDS.items():
        if name in Settings.tables():
            continue
        secret = "Secret" in str(field.annotation)
        key = (f"{name}_env" if secret else name) if name in shared else field.alias
        expected[key] = (field.alias or "", name in own)
    del said["RAGEVAL_CONFIG"]
    assert said == expected


def test_the_defaults_are_those_that_the_settings_page_names() -> None:
    defaults = {field.alias: field.default for field in FIELDS.values() if field.alias}
    wrong = []
    for _, variable, told, _, _ in rows_of_settings():
        default = defaults.get(variable.strip("`"))
        # Where there is none, or only one that depends on others, words say what holds.
        shown = "" if default is None else str(default).lower()
        if shown not in told.lower() or (default is None and re.fullmatch(r"[\d.]+", told)):
            wrong.append((variable, told, default))
    assert wrong == []


def test_the_tables_of_the_settings_files_are_some(tmp_path: Path) -> None:
    """Every TOML block of every page, alone in a file."""
    secrets = {"ASSISTANT_TOKEN": "x", "ACME_TOKEN": "x", "ACME_LLM_KEY": "x", "ACME_HOOK": "https://h.example"}
    (tmp_path / "my_package").mkdir()
    for page in PAGES:
        if page == "docs/metrics.md":  # read by tests/docs/test_metrics_docs.py, with the module that it names
            continue
        for text in blocks(page, "toml"):
            needed = '[defaults.systems.assistant]\nkind = "http"\nurl = "https://x.example"\n'
            complete = (
                text if "[defaults.systems.assistant]" in text or "systems.assistant" not in text else needed + text
            )
            (tmp_path / "rageval.toml").write_text(complete, encoding="utf-8")
            settings = load_settings(secrets, tmp_path / "none.env", tmp_path / "rageval.toml")
            for client in ("acme", "beta", "secret"):
                settings.for_client(client)


def test_the_files_of_the_readme_mean_what_it_says(tmp_path: Path) -> None:
    [systems] = blocks("README.md", "toml")
    (tmp_path / "rageval.toml").write_text(systems, encoding="utf-8")
    settings = load_settings({"ACME_TOKEN": "x"}, tmp_path / "none.env", tmp_path / "rageval.toml")
    system = load_external("assistant", settings.for_client("acme"), "acme")
    assert (system.name, system.reference) == ("assistant", False)
    [models] = blocks("docs/your-language-model.md", "toml")
    (tmp_path / "rageval.toml").write_text(models, encoding="utf-8")
    settings = load_settings({"ACME_LLM_KEY": "x"}, tmp_path / "none.env", tmp_path / "rageval.toml")
    judge = endpoint_of(settings.for_client("acme"), "judge")
    assert judge is not None
    assert (judge.model, judge.host) == ("gpt-5-mini", "llm.acme.example")
    assert endpoint_of(settings.for_client("secret"), "judge") is None


def test_the_views_are_those_there_are() -> None:
    named = [cell.strip("`") for cell, _ in table("docs/reading-results.md", "## In SQL")]
    assert sorted(named) == sorted(view.stem for view in (ROOT / "dbt_or_sql").glob("*.sql"))


def test_the_schedules_and_sensors_are_those_there_are() -> None:
    told = " ".join(cell for cell, _ in table("docs/schedules-and-alerts.md", "## All of it"))
    repository = defs.get_repository_def()
    there_are = {each.name for each in (*repository.schedule_defs, *repository.sensor_defs)}
    assert set(re.findall(r"`(\w+)`", told)) == there_are


def test_the_endpoints_are_those_there_are(tmp_path: Path) -> None:
    settings = load_settings({}, ROOT / "none.env", None)
    app = make_app(settings, open_database(f"sqlite:///{tmp_path / 'history.sqlite3'}"), SecretStr("x"))
    described = {f"{method.upper()} {path}" for path, methods in app.openapi()["paths"].items() for method in methods}
    told = {cell.strip("`") for cell, _ in table("docs/production.md", "## From other programs")}
    assert told == described
