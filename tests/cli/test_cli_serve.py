"""`rageval serve`: the token that it makes, and what stops it."""

import socket

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
