"""The pages of the documentation: README, SECURITY, ARCHITECTURE, CHANGELOG and docs/, and what stands in them."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = [
    *("README.md", "SECURITY.md", "ARCHITECTURE.md", "CHANGELOG.md"),
    *sorted(f"docs/{page.name}" for page in (ROOT / "docs").glob("*.md")),
]


def text_of(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def blocks(page: str, language: str) -> list[str]:
    """What stands in the page's fenced blocks of a language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", text_of(page), flags=re.MULTILINE | re.DOTALL)


def commands(page: str) -> list[str]:
    """The lines to be typed into a shell, without what explains them; continued ones as one."""
    text = "".join([*blocks(page, "sh"), *blocks(page, "bash")]).replace("\\\n", " ")
    lines = (re.sub(r"\s#.*", "", line).strip() for line in text.splitlines())
    return [line for line in lines if line]


def anchors(page: str) -> set[str]:
    """What a link may name behind `#`, as GitHub makes it from the headings."""
    found: dict[str, int] = {}
    names = set()
    for heading in re.findall(r"^#+ (.+)$", re.sub(r"^```.*?^```$", "", text_of(page), flags=re.M | re.S), flags=re.M):
        name = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        count = found[name] = found.get(name, -1) + 1
        names.add(f"{name}-{count}" if count else name)
    return names


def table(page: str, heading: str) -> list[list[str]]:
    """The cells of the table that stands first below a heading, without its head."""
    below = text_of(page).split(f"\n{heading}\n", 1)[1]
    rows = re.search(r"(?:^\|.*\|\n)+", below, flags=re.MULTILINE)
    assert rows is not None, f"no table below {heading!r} in {page}"
    return [[cell.strip() for cell in row.strip("|\n").split("|")] for row in rows[0].splitlines()[2:]]
