"""Systems that answer what none should: each question gets an answer or a typed error, in little time and memory."""

import re
import sys
import tracemalloc
from pathlib import Path
from time import process_time
from typing import Any

import pytest

from rageval_dagster.records import Item
from tests.rag.definitions import load, said
from tests.rag.hostile_responses import Hostile, HostileServer, responses

HOSTILE = responses()
MOST_MB = 500
MOST_S = 60
"""Of processor time: a test that went by the clock would fail on a busy machine."""


@pytest.fixture(scope="module")
def server() -> Any:
    with HostileServer(list(HOSTILE.values())) as serving:
        yield serving


@pytest.mark.parametrize("name", HOSTILE)
def test_each_question_gets_an_answer_or_a_typed_error(tmp_path: Path, server: HostileServer, name: str) -> None:
    hostile: Hostile = HOSTILE[name]
    url = f"{server.origin}/{list(HOSTILE).index(name)}"
    stream: dict[str, Any] = {} if hostile.stream is None else {"stream": hostile.stream}
    timeout_s = 0.5 if hostile.expected == "timeout" else 30
    system = load(tmp_path, kind="http", url=url, timeout_s=timeout_s, max_attempts=1, **stream)
    tracemalloc.start()
    started = process_time()
    try:
        (found,) = system.retrieve([Item("Is it?")], 10)
    finally:
        peak_mb = tracemalloc.get_traced_memory()[1] / 1e6
        tracemalloc.stop()
    took_s = process_time() - started
    print(f"{name}: {found.error or 'answered'}, {took_s:.1f} s, {peak_mb:.0f} MB", file=sys.stderr)
    if hostile.expected is None:
        assert found.error is None
        assert said(found) is not None
    else:
        assert found.error is not None
        assert found.error.startswith(hostile.expected)
        assert not found.hits
    assert peak_mb < MOST_MB
    assert took_s < MOST_S


def test_asked_together_none_stops_another_and_none_is_dropped(tmp_path: Path, server: HostileServer) -> None:
    system = load(tmp_path, kind="http", url=f"{server.origin}/{{question}}", timeout_s=2, max_attempts=1)
    asked = [Item(str(number)) for number, each in enumerate(HOSTILE.values()) if each.stream is None]
    found = system.retrieve(asked, 10)
    assert len(found) == len(asked) > 40
    assert all(re.match("[a-z_]+: ", each.error) if each.error else each.answer for each in found)
