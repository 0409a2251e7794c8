"""The files of deploy/: they can be read, belong together, and name only variables that there are."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from rageval_dagster.settings import Settings
from tests.deploy.compose import DEPLOY, PORTS, ROOT, compose

GIVEN = {"POSTGRES_PASSWORD": "p", "REDIS_PASSWORD": "r", "RAGEVAL_SERVE_TOKEN": "t"}
SERVICES = {
    *("postgres", "redis", "chroma"),
    *("code-server", "webserver", "daemon", "worker", "serve", "proxy"),
}
FILES = [path for path in sorted(DEPLOY.iterdir()) if path.is_file()]


def test_the_services_are_all_there_is_of_a_fleet() -> None:
    services = compose(GIVEN)["services"]
    assert set(services) == SERVICES
    ours = [name for name, each in services.items() if each["image"].startswith("rageval:")]
    shared = [services[name]["environment"] for name in ours]
    for environment in shared:
        assert {**environment, "RAGEVAL_SERVE_TOKEN": ""} == {**shared[0], "RAGEVAL_SERVE_TOKEN": ""}
    assert all("healthcheck" in services[name] for name in SERVICES - {"serve", "proxy", "chroma"})
    published = [port for each in services.values() for port in each.get("ports", ())]
    assert all(port.startswith("127.0.0.1:") for port in published), "nothing is open to others by itself"


@pytest.mark.parametrize("missing", sorted(GIVEN))
def test_there_is_no_password_by_default(missing: str) -> None:
    with pytest.raises(KeyError, match=missing):
        compose({name: value for name, value in GIVEN.items() if name != missing})
    assert missing in (DEPLOY / ".env.example").read_text(encoding="utf-8")


@pytest.mark.parametrize("file", FILES, ids=[file.name for file in FILES])
def test_every_variable_is_a_setting_or_told(file: Path) -> None:
    known = {field.alias for field in Settings.model_fields.values()}
    told = (DEPLOY / ".env.example").read_text(encoding="utf-8")
    named = set(re.findall(r"\b((?:RAGEVAL|EVALUATION|RAG_|OPENAI)_[A-Z_]+[A-Z])\b", file.read_text(encoding="utf-8")))
    assert [name for name in named if name not in known and f"{name}=" not in told] == []


def test_the_image_has_what_the_services_start_and_is_nobody_s_root() -> None:
    lines = (DEPLOY / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", " ").splitlines()
    copied = [name for line in lines if line.startswith("COPY ") for name in line.split()[1:-1]]
    assert all((ROOT / name).exists() for name in copied)
    assert {"requirements.lock", "requirements-fleet.lock", "deploy/entrypoint.sh", "deploy/workspace.yaml"} <= set(
        copied
    )
    users = [line for line in lines if line.startswith("USER ")]
    assert users == ["USER rageval"]
    assert any(line.startswith("HEALTHCHECK") for line in lines)
    assert (DEPLOY / "entrypoint.sh").stat().st_mode & 0o111
    subprocess.run(["sh", "-n", DEPLOY / "entrypoint.sh"], check=True)


def test_the_chart_s_values_start_the_same_code() -> None:
    values = yaml.safe_load((DEPLOY / "values.yaml").read_text(encoding="utf-8"))
    [deployment] = values["dagster-user-deployments"]["deployments"]
    command = compose(GIVEN)["services"]["code-server"]["command"]
    assert command[3:5] == deployment["dagsterApiGrpcArgs"]
    [dagster] = [line for line in (ROOT / "requirements.lock").read_text().splitlines() if line.startswith("dagster==")]
    assert f"--version {dagster.partition('==')[2]} " in (DEPLOY / "values.yaml").read_text(encoding="utf-8")
    assert values["runLauncher"]["type"] == "K8sRunLauncher"


@pytest.mark.skipif(not shutil.which("nginx"), reason="nginx is not installed")
def test_nginx_takes_its_configuration(tmp_path: Path) -> None:
    text = (DEPLOY / "nginx.conf").read_text(encoding="utf-8")
    assert f"http://webserver:{PORTS['webserver']}" in text
    text = text.replace("/etc/nginx/htpasswd", str(tmp_path / "htpasswd"))
    (tmp_path / "htpasswd").write_text("me:{PLAIN}secret\n", encoding="utf-8")
    whole = f"pid {tmp_path}/pid; error_log stderr; events {{}}\nhttp {{ access_log off;\n{text}\n}}\n"
    (tmp_path / "nginx.conf").write_text(whole, encoding="utf-8")
    command = ["nginx", "-t", "-p", tmp_path, "-c", tmp_path / "nginx.conf"]
    checked = subprocess.run(command, capture_output=True, text=True, check=False, env=dict(os.environ))
    assert checked.returncode == 0, checked.stderr
