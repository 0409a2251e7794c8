"""From a configuration to rageval.toml: what is written, and what is left as it was."""

import tomllib
from pathlib import Path

import pytest

from rageval_dagster.errors import SettingsError
from rageval_dagster.experiments.applying import command_for, lines_of, settings_for, write_into
from rageval_dagster.experiments.definition import Definition
from rageval_dagster.settings import load_settings

BEFORE = """\
# ours
[defaults]
k = 5        # for all

[clients.acme]   # the largest
k = 3 # hers
system = [
  "dense",
]
language = "en"

[clients."Zyx & Co"]
k = 7
"""


def test_values_are_set_where_they_stand_and_all_else_stays(tmp_path: Path) -> None:
    file = tmp_path / "rageval.toml"
    file.write_text(BEFORE.replace('system = [\n  "dense",\n]\n', 'system = "dense"\n'), encoding="utf-8")
    file.chmod(0o640)
    write_into(file, {("clients", "acme"): {"system": "hybrid", "k": 10, "answer_model": 'a "b"'}})
    text = file.read_text(encoding="utf-8")
    own = tomllib.loads(text)["clients"]["acme"]
    assert own == {"k": 10, "system": "hybrid", "answer_model": 'a "b"', "language": "en"}
    assert text.startswith("# ours\n[defaults]\nk = 5        # for all\n")
    assert "[clients.acme]   # the largest\n" in text
    assert text.endswith('[clients."Zyx & Co"]\nk = 7\n')
    assert file.stat().st_mode & 0o777 == 0o640


def test_a_table_or_a_file_that_is_not_there_is_made(tmp_path: Path) -> None:
    file = tmp_path / "rageval.toml"
    tables = {("clients", "Zyx & Co", "systems", "mine", "params"): {"temperature": 0.2, "rerank": True}}
    for before in (None, BEFORE):
        if before is not None:
            file.write_text(before, encoding="utf-8")
        write_into(file, tables)
        found = tomllib.loads(file.read_text(encoding="utf-8"))
        params = found["clients"]["Zyx & Co"]["systems"]["mine"]["params"]
        assert params == {"temperature": 0.2, "rerank": True}
    assert found["clients"]["Zyx & Co"]["k"] == 7


@pytest.mark.parametrize(
    "before",
    [
        BEFORE,  # a value over several lines
        'clients.acme = { system = "dense" }\n',
        "[clients]\nacme.k = 3\n",
        '[clients.acme]\nlanguage = """\nsystem = "x"\n"""\n',
        '[[clients.acme]]\nsystem = "dense"\n',
        "[[clients]]\nk = 3\n",
        "clients = 3\n",
        "[clients.acme\n",
    ],
)
def test_a_file_that_cannot_be_changed_safely_is_left_as_it_was(tmp_path: Path, before: str) -> None:
    file = tmp_path / "rageval.toml"
    file.write_text(before, encoding="utf-8")
    with pytest.raises(SettingsError, match="in a form that cannot be changed safely"):
        write_into(file, {("clients", "acme"): {"system": "bm25"}})
    assert file.read_text(encoding="utf-8") == before
    assert list(tmp_path.iterdir()) == [file]


def test_lines_end_and_links_point_as_they_did_and_the_changed_line_keeps_its_comment(tmp_path: Path) -> None:
    own, file = tmp_path / "own.toml", tmp_path / "rageval.toml"
    file.symlink_to(own)
    before = '\ufeff# a\u2028b\r\n[clients.acme]\r\nsystem = "a#b" # why "#"\r\n'
    own.write_bytes(before.encode())
    write_into(file, {("clients", "acme"): {"system": "bm25"}, ("clients", "new"): {"k": 1}})
    wanted = before.replace('"a#b"', '"bm25"') + "\r\n[clients.new]\r\nk = 1\r\n"
    assert file.is_symlink()
    assert own.read_bytes().decode() == wanted


def test_parameters_between_braces_are_set_there(tmp_path: Path) -> None:
    file = tmp_path / "rageval.toml"
    before = '[clients.acme.systems.mine]\nparams = { style = "a", words = 1 } # of every day\nkind = "http"\n'
    file.write_text(before, encoding="utf-8")
    write_into(file, {("clients", "acme", "systems", "mine", "params"): {"style": "b"}})
    assert file.read_text(encoding="utf-8") == before.replace('"a"', '"b"')


def test_a_file_that_is_read_only_stays_as_it_is(tmp_path: Path) -> None:
    file = tmp_path / "rageval.toml"
    file.write_text(BEFORE, encoding="utf-8")
    file.chmod(0o444)
    with pytest.raises(SettingsError, match=r"rageval.toml is read-only: make it writable, or change it yourself"):
        write_into(file, {("clients", "acme"): {"k": 4}})
    assert file.read_text(encoding="utf-8") == BEFORE


def test_what_a_configuration_means_for_the_settings(tmp_path: Path) -> None:
    settings = load_settings({}, tmp_path / "none.env", None)
    parameters = {"chunk_size": [400], "retriever": ["hybrid"], "number_of_chunks": [7], "prompt": ["/p"]}
    built_in = Definition.model_validate({"client": "acme", "documents": "/my docs", "parameters": parameters})
    chosen = {"chunk_size": 400, "retriever": "hybrid", "number_of_chunks": 7, "prompt": "/p"}
    assert lines_of(settings_for(built_in, settings, chosen)) == (
        '[clients.acme]\nsystem = "hybrid"\nk = 7\nprompts = "/p"'
    )
    command = "rageval ingest '/my docs' --client acme --chunk-size 400 --overlap 120"
    assert command_for(built_in, chosen) == command
    assert command_for(built_in, {"retriever": "bm25"}) is None
    own = Definition.model_validate({"client": "acme", "system": "mine", "parameters": {"temperature": [0.1]}})
    assert lines_of(settings_for(own, settings, {"temperature": 0.1, "number_of_chunks": 3})) == (
        "[clients.acme]\nk = 3\n\n[clients.acme.systems.mine.params]\ntemperature = 0.1"
    )
