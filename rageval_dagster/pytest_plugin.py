"""The pytest plugin: every pytest run loads it where this package is installed, so it imports what it needs late."""

from collections.abc import Callable, Mapping
from os import PathLike
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from rageval_dagster.recorded.formats import Output


@pytest.fixture
def recorded_answers(request: pytest.FixtureRequest) -> "Callable[..., list[Output]]":
    """Reads what a system said, for `assert_evaluation`: `recorded_answers("answers.jsonl")`.

    The path is seen from the test's own file. Formats and names of columns are those of `rageval score`; without a
    format the fields of the rows decide. A row that cannot be used fails the test, by file, row and field.
    """
    from rageval_dagster.errors import DatasetError
    from rageval_dagster.recorded.formats import OutputOptions, detect_format, read_outputs
    from rageval_dagster.settings import load_settings

    def read(
        file: str | PathLike[str], format_name: str | None = None, columns: Mapping[str, str] | None = None
    ) -> "list[Output]":
        __tracebackhide__ = True
        path, names = request.path.parent / file, columns or {}
        options = OutputOptions(names, decline_phrases=load_settings().decline_phrases)
        try:
            report = read_outputs(path, format_name or detect_format(path, names), options)
        except DatasetError as error:
            pytest.fail(str(error), pytrace=False)
        if report.refused:
            pytest.fail("\n".join(map(str, report.refused)), pytrace=False)
        return report.rows

    return read
