"""What records say of themselves."""

import pytest

from rageval_dagster.records import pace


@pytest.mark.parametrize(
    ("done", "seconds", "said"),
    [
        (8, 10.0, "0.8/s, 0:00:02 left"),
        (2, 100.0, "1.2/min, 0:06:40 left"),
        (10, 1000.0, "0.6/min"),
        (0, 10.0, "0.0/s"),
    ],
)
def test_a_slow_pace_is_told_by_the_minute(done: int, seconds: float, said: str) -> None:
    assert pace(done, 10, seconds) == said
