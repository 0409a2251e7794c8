"""`rageval serve`: the token that it makes, and what stops it."""

import socket
from pathlib import Path

import pytest

from rageval_dagster.cli.serve import _token
from rageval_dagster.errors import SettingsError
from tests.cli.running import Run, refused
from tests.pipeline.small_project import Project


def test_a_token_is_made_once_and_a_port_that_is_taken_is_said(project: Project, run: Run) -> None:
    token = project.settings.home / "serve_token"
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        refused(run("serve", "--port", str(port)), f"port {port}", "RAGEVAL_SERVE_PORT")
        made = token.read_text(encoding="utf-8")
        assert len(made.strip()) >= 43
        assert token.stat().st_mode & 0o777 == 0o600
        run("serve", "--port", str(port))
    assert token.read_text(encoding="utf-8") == made


def test_a_token_that_can_be_guessed_is_refused(project: Project, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAGEVAL_SERVE_TOKEN", "fifteen-letters")
    ended = run("serve")
    refused(ended, "RAGEVAL_SERVE_TOKEN", "at least 16 characters", "openssl rand -hex 32")
    assert "fifteen-letters" not in ended.err


def test_of_two_that_make_the_token_at_once_both_take_the_first(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.settings.ensure_home()
    path = project.settings.home / "serve_token"
    exists = Path.exists

    def seen_too_early(self: Path, **options: bool) -> bool:
        found = exists(self, **options)
        if self == path and not found:
            path.write_text("the-other's", encoding="utf-8")
        return found

    monkeypatch.setattr(Path, "exists", seen_too_early)
    assert _token(project.settings)[0].get_secret_value() == "the-other's"
    assert path.read_text(encoding="utf-8") == "the-other's"
    assert not list(path.parent.glob(".serve_token-*"))


def test_a_blank_token_is_made_anew_and_one_that_cannot_be_read_is_said(project: Project) -> None:
    project.settings.ensure_home()
    path = project.settings.home / "serve_token"
    path.write_text(" \n", encoding="utf-8")
    assert len(_token(project.settings)[0].get_secret_value()) >= 43
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(SettingsError, match="not UTF-8: delete the file"):
        _token(project.settings)
