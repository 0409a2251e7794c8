"""Where a report lies and what leads into it: file names, and addresses under the user's own base URL."""

import re
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from rageval_dagster.identity import digest

FLEET_FILE = "fleet.html"
EXPERIMENTS_FILE = "experiments.html"
"""The name under which `rageval serve` lists all experiments."""
_UNFIT = re.compile(r"[^a-z0-9]+")


def report_file(client_id: str, redacted: bool = False) -> str:
    """The file name of a client's report: readable, safe in any file system, and one for each name.

    The one without texts has a name of its own: who shares it does not share the other.
    """
    slug = _UNFIT.sub("-", client_id.lower()).strip("-")[:40]
    return f"{slug or 'client'}-{digest(client_id)[:12]}{'.redacted' if redacted else ''}.html"


def local_base_url(port: int) -> str:
    """Where `rageval serve` serves the reports on this machine."""
    return f"http://127.0.0.1:{port}/reports"


def experiment_file(number: int) -> str:
    """The name under which `rageval serve` serves an experiment's report; no client's report has one of this form."""
    return f"experiment-{number}.html"


@dataclass(frozen=True)
class ReportLinks:
    """Addresses into the reports; all None where no base URL is set, since browsers refuse links to files."""

    base_url: str | None = None

    def client(self, client_id: str) -> str | None:
        return self._page(report_file(client_id))

    def evaluation(self, client_id: str, evaluation_id: int) -> str | None:
        return self._page(report_file(client_id), f"run={evaluation_id}")

    def question(self, client_id: str, evaluation_id: int, item_id: str) -> str | None:
        return self._page(report_file(client_id), f"run={evaluation_id}&question={quote(item_id)}")

    def experiment(self, number: int) -> str | None:
        return self._page(experiment_file(number))

    def _page(self, file: str, fragment: str = "") -> str | None:
        if self.base_url is None:
            return None
        return f"{self.base_url.rstrip('/')}/{file}" + (f"#{fragment}" if fragment else "")


def report_path(folder: Path, client_id: str, redacted: bool = False) -> Path:
    """Where a client's report lies in the folder of reports."""
    return folder / report_file(client_id, redacted)
