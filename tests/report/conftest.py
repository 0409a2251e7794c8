"""A browser for the report's tests: Chromium without a screen."""

import os
import shutil
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Error, sync_playwright


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """The system's Chromium, else Playwright's own; without either the test is skipped, where nobody insists."""
    with sync_playwright() as playwright:
        try:
            found = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        except Error as error:
            if os.environ.get("CI"):
                raise
            pytest.skip(f"no Chromium (playwright install chromium): {str(error).splitlines()[0]}")
        yield found
        found.close()
