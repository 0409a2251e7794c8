"""requirements.lock installs what users need, all of it and nothing for tests; the other locks add to it."""

import re
from importlib.metadata import distribution
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]


def normalised(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def pinned(file: str) -> set[str]:
    lines = (ROOT / file).read_text(encoding="utf-8").splitlines()
    return {normalised(line.partition("==")[0]) for line in lines if not line.startswith("#")}


def needed(extra: str = "") -> set[str]:
    """All that the project needs here, with an extra or without."""
    found: set[tuple[str, str]] = set()
    left = [("rageval-dagster", ""), ("rageval-dagster", extra)]
    while left:
        name, of = left.pop()
        if (name, of) in found:
            continue
        found.add((name, of))
        for requirement in map(Requirement, distribution(name).requires or ()):
            if requirement.marker is None or requirement.marker.evaluate({"extra": of}):
                left += [(normalised(requirement.name), each) for each in ("", *requirement.extras)]
    return {name for name, _ in found} - {"rageval-dagster", "setuptools"}


def test_users_get_what_they_need_and_no_tools_for_tests() -> None:
    files = ("requirements.lock", "requirements-fleet.lock", "requirements-dev.lock")
    users, fleet, tests = (pinned(file) for file in files)
    assert needed() <= users
    for extra in ("celery", "postgres", "k8s", "otel"):
        assert needed(extra) <= users | fleet
    assert needed("dev") <= users | fleet | tests
    assert sum(map(len, (users, fleet, tests))) == len(users | fleet | tests), "each package is pinned once"
    assert {"celery", "dagster-celery", "dagster-postgres", "dagster-k8s"} <= fleet
    assert {"pytest", "pyright", "ruff", "playwright", "xllamacpp", "pyarrow"} <= tests
