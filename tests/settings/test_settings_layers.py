"""Settings: which layer wins, what one client has for itself, and what a wrong one is told."""

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from rageval_dagster.errors import SettingsError
from rageval_dagster.settings import HttpDefinition, Settings, describe, load_settings

Load = Callable[..., Settings]


@pytest.fixture
def load(tmp_path: Path) -> Load:
    def call(toml: str = "", environment: Mapping[str, str] = {}, dotenv: str = "") -> Settings:
        (tmp_path / "rageval.toml").write_text(toml, encoding="utf-8")
        (tmp_path / ".env").write_text(dotenv, encoding="utf-8")
        return load_settings(environment, tmp_path / ".env", tmp_path / "rageval.toml")

    return call


SYSTEM = """
[defaults]
system = "assistant"
[defaults.systems.assistant]
kind = "http"
url = "https://rag.example/{client}/ask"
auth_env = "TOKEN"
headers = { Accept = "application/json" }
request = { q = "{question}", top = "{k}" }
[defaults.systems.assistant.response]
answer = "result.text"
"""


def test_a_clients_table_wins_over_the_environment_and_that_over_env_file_and_defaults(load: Load) -> None:
    toml = "[defaults]\nk = 2\nsample_size = 2\nlanguage = 'de'\n[clients.acme]\nk = 7\n"
    settings = load(toml, {"EVALUATION_DEFAULT_K": "4"}, "EVALUATION_DEFAULT_SAMPLE_SIZE=9\nEVALUATION_DEFAULT_K=3\n")
    assert (settings.k, settings.sample_size, settings.language) == (4, 9, "de")
    assert settings.for_client("acme").k == 7
    assert settings.for_client("acme").sample_size == 9
    assert settings.for_client("another").k == 4


def test_styles_are_a_list_or_parted_by_lines_and_each_client_has_its_own(load: Load) -> None:
    toml = "[clients.acme]\nquestion_styles = ['chat', 'a nurse, short | with typos']\n"
    settings = load(toml, {"RAGEVAL_QUESTION_STYLES": "search | a nurse, short"})
    assert settings.question_styles == ("search", "a nurse, short")
    assert settings.for_client("acme").question_styles == ("chat", "a nurse, short | with typos")
    assert load().question_styles is None
    for wrong in ("x" * 201, "chat | "):
        with pytest.raises(SettingsError, match="RAGEVAL_QUESTION_STYLES takes search, chat, expert, plain, or"):
            load("", {"RAGEVAL_QUESTION_STYLES": wrong})


def test_where_a_value_comes_from_is_told(load: Load) -> None:
    settings = load("[defaults]\nlanguage = 'de'\n[clients.acme]\nk = 7\n", {"EVALUATION_DEFAULT_SAMPLE_SIZE": "9"})
    sources = {setting.name: (setting.value, setting.source) for setting in describe(settings, "acme")}
    assert sources["EVALUATION_DEFAULT_K"] == (7, "rageval.toml [clients.acme]")
    assert sources["language"] == ("de", "rageval.toml [defaults]")
    assert sources["EVALUATION_DEFAULT_SAMPLE_SIZE"] == (9, "environment")
    assert sources["RAGEVAL_SETTLE_S"] == (60, "default")


def test_a_client_changes_a_part_of_a_system_and_keeps_the_rest(load: Load) -> None:
    toml = SYSTEM + '[clients."ACME, Inc."]\n[clients."ACME, Inc.".systems.assistant]\nauth_env = "ACME_TOKEN"\n'
    own = load(toml).for_client("ACME, Inc.").systems["assistant"]
    assert isinstance(own, HttpDefinition)
    assert (own.auth_env, own.url, own.response.answer) == (
        "ACME_TOKEN",
        "https://rag.example/{client}/ask",
        "result.text",
    )
    assert own.request == {"q": "{question}", "top": "{k}"}


def test_another_request_or_another_kind_of_system_replaces_the_whole(load: Load) -> None:
    toml = SYSTEM + (
        "[clients.a.systems.assistant]\nrequest = { query = '{question}' }\n"
        "[clients.b.systems.assistant]\nkind = 'recorded'\nfile = 'answers.jsonl'\n"
    )
    settings = load(toml)
    changed = settings.for_client("a").systems["assistant"]
    assert isinstance(changed, HttpDefinition)
    assert changed.request == {"query": "{question}"}
    assert settings.for_client("b").systems["assistant"].kind == "recorded"


def test_secrets_are_named_and_come_from_the_environment_or_a_file(load: Load, tmp_path: Path) -> None:
    (tmp_path / "key").write_text("from-the-file\n", encoding="utf-8")
    toml = "[clients.a]\nopenai_api_key_env = 'A_KEY'\n[clients.b]\nopenai_api_key_env = 'B_KEY'\n"
    settings = load(
        toml, {"A_KEY": "from-the-variable", "B_KEY_FILE": str(tmp_path / "key"), "OPENAI_API_KEY": "of-all"}
    )
    keys = [settings.for_client(name).openai_api_key for name in ("a", "b", "c")]
    assert [key and key.get_secret_value() for key in keys] == ["from-the-variable", "from-the-file", "of-all"]
    shown = str(describe(settings, "a")) + repr(settings.for_client("a")) + str(settings.for_client("a").model_dump())
    assert "from-the-variable" not in shown


def test_a_client_whose_documents_may_not_leave_has_no_model(load: Load) -> None:
    toml = "[defaults]\nanswer_model = 'gpt'\ngenerator_model = 'gpt'\n[clients.acme]\nllm = 'forbidden'\n"
    settings = load(toml, {"RAGEVAL_ANSWER_MODEL": "other"})
    assert settings.answer_model == "other"
    assert (settings.for_client("acme").answer_model, settings.for_client("acme").generator_model) == (None, None)


def test_one_clients_mistake_stops_no_other(load: Load) -> None:
    settings = load("[clients.acme]\nclient_feld = 'c'\nk = 0\n[clients.b]\nk = 3\n")
    assert settings.for_client("b").k == 3
    with pytest.raises(SettingsError, match=r"rageval.toml \[clients.acme\]: ") as raised:
        settings.for_client("acme")
    for said in ("there is no 'client_feld'", "k takes a whole number"):
        assert said in str(raised.value), "every mistake is named at once"


@pytest.mark.parametrize(
    ("toml", "said"),
    [
        ("[defaults]\nsytem = 'x'", "rageval.toml [defaults]: there is no 'sytem'; did you mean system?"),
        ("[defaults]\nsystem = 'x'", "there is no 'x': define [defaults.systems.x]"),
        ("[clients.acme]\nchroma_url = 'x'", "chroma_url holds for all clients: [defaults]"),
        ("[defaults]\nopenai_api_key = 'sk-hush'", "name its variable: openai_api_key_env"),
        ("[defaults]\nopenai_api_key_env = 'XX'", "names the variable 'XX', which is not set (nor is XX_FILE)"),
        ("[defaults]\nopenai_api_key_env = 'sk-hush'", "openai_api_key_env names a variable that is not set ("),
        ("[defaults.systems.a]\nurl = 'x'", "systems.a has no kind (http, callable or recorded)"),
        ("[clients.acme]\nsystem = []", "system takes the name of a system"),
        ("[clients.acme]\nretention_days_text = inf", "retention_days_text takes a number of days from 0 to 36500"),
        ("[defaults.systems.a]\nkind = 'http'\nurl = 'http://u:sk-hush@x'", "systems.a.url"),
        ("[defaults.systems.a]\nkind = 'http'\nurl = 'http://x'\nheaders = {Authorization='sk-hush'}", "no secrets"),
        ("[defaults.systems.a]\nkind = 'http'\nurl = 'http://x'\nresponse = {answer='a['}", "a JMESPath expression"),
        (
            "[defaults.systems.a]\nkind = 'http'\nauth_evn = 'X'",
            "systems.a.auth_evn is not a field here; did you mean auth_env",
        ),
        ("[defaults.systems.dense]\nkind = 'recorded'\nfile = 'x'", "dense is the name of a built-in system"),
        ("[clients.acme]\nllm = 'forbidden'\nembedding_model = 'openai:x'", "is a model behind an endpoint"),
        ("[defaults]\nlanguage = 'German'", "language takes a language's two letters (ISO 639-1), not 'German'"),
        ("[system]\nx = 1", "there is no table [system]"),
        ("x", "is not TOML"),
    ],
)
def test_a_mistake_is_one_line_with_its_place_and_no_secret(load: Load, toml: str, said: str) -> None:
    with pytest.raises(SettingsError) as raised:
        load(toml).for_client("acme")
    assert said in str(raised.value)
    assert "\n" not in str(raised.value)
    assert "sk-hush" not in str(raised.value)


def test_a_collection_is_one_clients_unless_a_field_tells_them_apart(load: Load) -> None:
    tables = "".join(f"[clients.{name}]\ncollection = 'kb'\n" for name in ("acme", "rival"))
    with pytest.raises(SettingsError, match=r"\[clients.acme\] and \[clients.rival\] name the same collection 'kb'"):
        load(tables).for_client("acme")
    assert load(f"[defaults]\nclient_field = 'tenant'\n{tables}").for_client("acme").collection == "kb"


def test_files_that_are_no_text_are_named_and_not_quoted(tmp_path: Path) -> None:
    broken, none = tmp_path / "broken", tmp_path / "none"
    broken.write_bytes(b"\xffOPENAI_API_KEY=s3cret")
    for environment, env_file in (({"OPENAI_API_KEY_FILE": str(broken)}, none), ({}, broken)):
        with pytest.raises(SettingsError, match=r"broken.*\(not UTF-8\)") as caught:
            load_settings(environment, env_file)
        assert "s3cret" not in str(caught.value)


def test_misspelt_variables_are_noticed(load: Load, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("x", encoding="utf-8")
    settings = load("", {"RAGEVAL_CHROMA_ULR": "http://x", "RAGEVAL_CHROMA_TOKEN_FILE": str(tmp_path / "token")})
    assert settings.source.unknown_variables() == ["RAGEVAL_CHROMA_ULR is no setting; did you mean RAGEVAL_CHROMA_URL?"]


def test_a_file_that_is_named_and_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="RAGEVAL_CONFIG: there is no file"):
        load_settings({"RAGEVAL_CONFIG": str(tmp_path / "gone.toml")}, tmp_path / "none.env")


def test_the_env_file_beside_a_named_config_is_read_where_the_working_folder_has_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where the UI is started in another folder than the commands."""
    own, elsewhere = tmp_path / "own", tmp_path / "elsewhere"
    for folder in (own, elsewhere):
        folder.mkdir()
    (own / "rageval.toml").write_text("[defaults]\nopenai_api_key_env = 'OWN_KEY'\n", encoding="utf-8")
    monkeypatch.chdir(elsewhere)
    for folder, key in ((own, "sk-own"), (elsewhere, "sk-here")):
        (folder / ".env").write_text(f"OWN_KEY={key}\n", encoding="utf-8")
        settings = load_settings({"RAGEVAL_CONFIG": str(own / "rageval.toml")})
        assert settings.openai_api_key is not None
        assert settings.openai_api_key.get_secret_value() == key
