"""Telling people: each incident's opening and closing is sent to the client's webhook once."""

import asyncio
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit

from pydantic import SecretStr

from rageval_dagster.errors import SettingsError
from rageval_dagster.network import is_certificate_error, is_loopback, run_apart, silence_libraries
from rageval_dagster.settings import Settings
from rageval_dagster.storage import incidents as incident_storage
from rageval_dagster.storage.database import Database
from rageval_dagster.storage.incidents import Incident
from rageval_dagster.storage.types import utc_now
from rageval_dagster.telling.links import ReportLinks
from rageval_dagster.telling.slack import BY_CLIENT, message

TIMEOUT_S = 10.0
NEWS_FOR = timedelta(days=1)
"""What could not be told for so long is not told any more."""
CLAIMED_FOR = timedelta(seconds=60)
"""More than one message takes: what somebody died over is told by another after that."""
LONGEST_S = 20.0
"""No new message is begun after so long: the rest is for the next look."""
WRONG_SETTINGS = "a client's settings are wrong"


@dataclass(frozen=True)
class Delivery:
    """How many messages were sent, and why how many were not; the reasons name neither address nor client."""

    sent: int
    failures: Mapping[str, int]

    @property
    def trouble(self) -> str | None:
        """One line on what was not sent; None if there is nothing."""
        if not self.failures:
            return None
        reasons = ", ".join(f"{reason}: {count}" for reason, count in sorted(self.failures.items()))
        return f"alerts that could not be sent to a webhook ({reasons}); tried again for a day"


def tell(db: Database, settings: Settings) -> Delivery:
    """Sends what is news and was not told, a message for each webhook, kind of incident, and opening or closing.

    What several processes would tell at once, one of them tells. Whatever fails is left for the next time, for a day;
    clients without a webhook are left out. Where a process dies between sending and noting it, it is sent again.
    """
    started, sent, failures = time.monotonic(), 0, Counter[str]()
    refused: set[SecretStr] = set()
    links = ReportLinks(settings.report_base_url)
    news, wrong = _by_webhook(settings, incident_storage.untold(db, utc_now() - NEWS_FOR))
    failures.update({WRONG_SETTINGS: wrong} if wrong else {})
    for url, incidents in news:
        if url in refused or time.monotonic() - started > LONGEST_S:
            continue
        now = utc_now()
        claimed = incident_storage.claim(db, incidents, now, now + CLAIMED_FOR)
        if not claimed:
            continue
        trouble = post(url, message(claimed, links))
        if trouble is None:
            incident_storage.mark_told(db, claimed, utc_now())
            sent += 1
        else:
            incident_storage.give_back(db, claimed, utc_now())
            failures[trouble] += 1
            refused.add(url)
    return Delivery(sent, failures)


def _by_webhook(settings: Settings, news: Iterable[Incident]) -> tuple[list[tuple[SecretStr, list[Incident]]], int]:
    """The messages to send, in the order of their oldest news, and how many incidents' clients have wrong settings."""
    messages: dict[tuple[Any, ...], tuple[SecretStr, list[Incident]]] = {}
    wrong = 0
    for incident in news:
        try:
            url = settings.for_client(incident.client_id).alert_webhook_url
        except SettingsError:
            wrong += 1
            continue
        if url is not None:
            client = incident.client_id if incident.kind in BY_CLIENT else None
            messages.setdefault((url, incident.kind, incident.phase, client), (url, []))[1].append(incident)
    return list(messages.values()), wrong


def host_of(url: SecretStr) -> str:
    """The host of a webhook: all of its address that is no secret.

    Raises:
        SettingsError: it is no https:// address, nor http:// on this machine.
    """
    scheme, host = "", ""
    with suppress(ValueError):
        parts = urlsplit(url.get_secret_value())
        scheme, host = parts.scheme, parts.hostname or ""
    if not host or not (scheme == "https" or (scheme == "http" and is_loopback(host))):
        raise SettingsError("RAGEVAL_ALERT_WEBHOOK_URL takes https://...; http:// only on this machine")
    return host


def post(url: SecretStr, payload: Mapping[str, Any]) -> str | None:
    """Sends a message; gives None, or in a few words of our own why it was not taken."""
    try:
        host = host_of(url)
    except SettingsError:
        return "no https:// address"
    return run_apart(_post(url, host, payload))


async def _post(url: SecretStr, host: str, payload: Mapping[str, Any]) -> str | None:
    import httpx

    silence_libraries()
    # A proxy for the way out has nothing to do with this machine's own services.
    mounts = {f"all://{host}": None} if is_loopback(host) else None
    try:
        async with (
            asyncio.timeout(TIMEOUT_S),
            httpx.AsyncClient(follow_redirects=False, timeout=None, mounts=mounts) as client,  # noqa: S113
            client.stream("POST", url.get_secret_value(), json=payload) as response,
        ):
            return None if response.is_success else f"HTTP {response.status_code}"
    except TimeoutError:
        return f"no answer within {TIMEOUT_S:g} s"
    # The rest: of the environment's proxy or certificates, which httpx reads as it opens.
    except (httpx.HTTPError, httpx.InvalidURL, OSError, ValueError, ImportError) as error:
        return "certificate not trusted" if is_certificate_error(error) else "no connection"
