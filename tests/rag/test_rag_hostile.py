"""Systems that answer what none should: each question gets an answer or a typed error, in little time and memory."""

import sys
import tracemalloc
from pathlib import Path
from time import monotonic
from typing import Any

import pytest

from rageval_dagster.records import Item
from tests.rag.definitions import load, said
from tests.rag.hostile_responses import Hostile, HostileServer, responses

HOSTILE = responses()
MOST_MB = 500
MOST_S = 60


@pytest.fixture(scope="module")
def server() -> Any:
    with HostileServer(list(HOSTILE.values())) as serving:
        yield serving


@pytest.mark.parametrize("name", HOSTILE)
def test_each_question_gets_an_answer_or_a_typed_error(tmp_path: Path, server: HostileServer, name: str) -> None:
    hostile: Hostile = HOSTILE[name]
    url = f"{server.origin}/{list(HOSTILE).index(name)}"
    stream = {} if hostile.stream is None else {"stream": hostile.stream}
    timeout_s = 0.5 if hostile.expected == "timeout" else 30
    system = load(tmp_path, kind="http", url=url, timeout_s=timeout_s, max_attempts=1, **stream)
    tracemalloc.start()
    started = monotonic()
    try:
        (found,) = system.retrieve([Item("Is it?")], 10)
    finally:
        peak_mb = tracemalloc.get_traced_memory()[1] / 1e6
        tracemalloc.stop()
    took_s = monotonic() - started
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
