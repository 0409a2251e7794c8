"""Property tests that go on for as long as somebody wants: RAGEVAL_FUZZ_SECONDS=600 pytest --timeout 0 -k fuzz."""

import os
from collections.abc import Callable
from time import monotonic


def fuzz(check: Callable[[], None]) -> None:
    """Runs a hypothesis test once, or with new examples until RAGEVAL_FUZZ_SECONDS are over."""
    end = monotonic() + float(os.environ.get("RAGEVAL_FUZZ_SECONDS", "0"))
    check()
    while monotonic() < end:
        check()
