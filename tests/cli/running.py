"""How the tests run the command, and what they ask of a refusal."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass
class Ended:
    code: int
    out: str
    err: str


Run = Callable[..., Ended]


def refused(ended: Ended, *words: str) -> None:
    """One clear line with these words, no traceback, exit code 2."""
    assert ended.code == 2, ended
    lines = [line for line in ended.err.strip().splitlines() if line.startswith("rageval: ")]
    assert len(lines) == 1, ended.err
    assert "Traceback" not in ended.err
    for word in words:
        assert word in lines[0]
