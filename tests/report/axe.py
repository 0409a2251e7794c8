"""What a page has against those who cannot see, or not point."""

from pathlib import Path

import axe_playwright_python
from playwright.sync_api import Page

AXE = (Path(axe_playwright_python.__file__).parent / "axe.min.js").read_text(encoding="utf-8")


def serious_violations(page: Page) -> list[tuple[str, str]]:
    page.evaluate(AXE)
    found = page.evaluate("axe.run()")["violations"]
    return [(each["id"], each["nodes"][0]["html"]) for each in found if each["impact"] in ("serious", "critical")]
