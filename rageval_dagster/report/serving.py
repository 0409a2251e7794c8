"""The reports to people in a browser: who gives the token gets a session, and with it the pages."""

import hashlib
import math
import re
import secrets
import shlex
from collections.abc import Callable
from urllib.parse import parse_qs, urlsplit

from pydantic import SecretStr
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from rageval_dagster.errors import RagevalError
from rageval_dagster.report.files import read_report
from rageval_dagster.report.page import served_page
from rageval_dagster.settings import Settings
from rageval_dagster.storage.clients import list_clients
from rageval_dagster.storage.database import Database
from rageval_dagster.telling.links import FLEET_FILE, report_file

SESSION_S = 12 * 3600
"""After so many seconds a person logs in again."""
MOST_FAILURES = 10
FAILURES_S = 60
"""An address that gave so many wrong tokens within so many seconds waits until the first of them is that old."""
_MOST_BYTES = 50_000
_SESSION, _FORM = "rageval_session", "rageval_form"
PERSON = "rageval_person"
"""The cookie with the name of who labels; it ends with the browser, and with a logout."""
_NAME = re.compile(r"[a-z0-9-]+(\.redacted)?\.html")
_LABEL = re.compile(r"label(\?[\w.~%+=&-]*)?", re.ASCII)
_POLICY = re.compile(r'http-equiv="Content-Security-Policy" content="([^"]*)"')
_HEADERS = {
    "Cache-Control": "no-store",
    "Referrer-Policy": "same-origin",  # with no-referrer, browsers send "null" as the origin of our own forms
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


def html(page: str, status: int = 200) -> Response:
    """An answer with a page, whose own policy says what may run in it."""
    policy = _POLICY.search(page)
    allowed = policy.group(1) if policy else "default-src 'none'"
    return HTMLResponse(page, status, {**_HEADERS, "Content-Security-Policy": f"{allowed}; frame-ancestors 'none'"})


class Sessions:
    """Who is logged in to this process, and who gave wrong tokens. Times are seconds of the `clock`."""

    def __init__(self, token: SecretStr, clock: Callable[[], float]) -> None:
        self._token = token.get_secret_value().encode()
        self._clock = clock
        self._ends: dict[bytes, float] = {}
        self._failures: dict[str, list[float]] = {}

    def open(self, token: str, address: str) -> str | None:
        """A new session's secret; None where that is not the token."""
        now, given = self._clock(), token.strip().encode(errors="replace")
        if not given or not secrets.compare_digest(given, self._token):
            self._failures.setdefault(address, []).append(now)
            return None
        secret = secrets.token_urlsafe(32)
        self._ends = {key: end for key, end in self._ends.items() if end > now} | {_hashed(secret): now + SESSION_S}
        return secret

    def is_open(self, secret: str) -> bool:
        return self._ends.get(_hashed(secret), 0) > self._clock()

    def close(self, secret: str) -> None:
        self._ends.pop(_hashed(secret), None)

    def must_wait_s(self, address: str) -> int:
        """How long that address may not try again; 0 where it may."""
        since = self._clock() - FAILURES_S
        recent = {each: [time for time in times if time > since] for each, times in self._failures.items()}
        self._failures = {each: times for each, times in recent.items() if times}
        failures = self._failures.get(address, [])
        return math.ceil(failures[0] - since) if len(failures) >= MOST_FAILURES else 0


def _hashed(secret: str) -> bytes:
    """Sessions are looked up by this: the time that takes says nothing about the secret."""
    return hashlib.sha256(secret.encode(errors="replace")).digest()


class ReportPages:
    """The page of all clients, each client's, login and logout.

    Addresses in them are relative, so that a proxy may serve them under any path.
    """

    def __init__(self, settings: Settings, db: Database, token: SecretStr, clock: Callable[[], float]) -> None:
        self._folder = settings.report_dir
        self._base_url = settings.report_base_url or ""
        self._db = db
        self._sessions = Sessions(token, clock)

    def routes(self) -> list[Route]:
        return [
            Route("/", lambda _: redirect(f"reports/{FLEET_FILE}")),
            Route("/reports", lambda _: redirect(f"reports/{FLEET_FILE}")),
            Route("/reports/", lambda _: redirect(FLEET_FILE)),
            Route("/reports/{name}", self._report),
            Route("/login", self._login, methods=["GET", "POST"]),
            Route("/logout", self._logout, methods=["GET", "POST"]),
        ]

    def _report(self, request: Request) -> Response:
        name = request.path_params["name"]
        if not self.is_logged_in(request):
            return redirect(f"../login?next={name}" if _NAME.fullmatch(name) else "../login")
        if not _NAME.fullmatch(name):
            return html(served_page("There is no such report"), 404)
        try:
            page = read_report(self._folder / name)
        except FileNotFoundError:
            return self._missing(name)
        except OSError as error:
            return html(served_page("The report cannot be read", f"{self._folder / name}: {error.strerror}"), 503)
        except RagevalError as error:
            return html(served_page("The report cannot be read", str(error)), 503)
        except UnicodeDecodeError:
            return html(served_page("The report is damaged", "This command makes all anew:", "rageval report"), 503)
        links = '<a href="../label">Label answers</a><a href="../logout">Log out</a></header>'
        return html(page.replace("</header>", links, 1))

    def _missing(self, name: str) -> Response:
        """What is asked for may be a client's that has none yet: the page says which command makes it."""
        if name == FLEET_FILE:
            said = "Each evaluation writes them. This command makes them from the history of evaluations:"
            return html(served_page("There are no reports yet", said, "rageval report"), 404)
        for client in list_clients(self._db):
            for redacted in (False, True):
                if name == report_file(client.client_id, redacted):
                    command = (
                        f"rageval report --client {shlex.quote(client.client_id)}{' --redact' if redacted else ''}"
                    )
                    title = f"{client.client_id} has no {'redacted ' if redacted else ''}report yet"
                    return html(served_page(title, "This command makes it:", command), 404)
        said = "No client has a report of that name. This command makes those of all clients:"
        return html(served_page("There is no such report", said, "rageval report"), 404)

    async def _login(self, request: Request) -> Response:
        if request.method != "POST":
            return redirect(_next(request)) if self.is_logged_in(request) else self._form(request, "login")
        fields = await fields_of(request)
        if problem := self.problem_of_form(request, fields):
            return self._form(request, "login", 403, problem)
        address = request.client.host if request.client else ""
        if seconds := self._sessions.must_wait_s(address):
            answer = self._form(request, "login", 429, f"Too many wrong tokens. Try again in {seconds} seconds.")
            answer.headers["Retry-After"] = str(seconds)
            return answer
        secret = self._sessions.open(fields.get("token", ""), address)
        if secret is None:
            return self._form(request, "login", 403, "That is not the token.")
        answer = redirect(_next(request))
        self.set_cookie(request, answer, _SESSION, secret, SESSION_S)
        return answer

    async def _logout(self, request: Request) -> Response:
        if not self.is_logged_in(request):
            return redirect("login")
        if request.method != "POST":
            return self._form(request, "logout")
        if problem := self.problem_of_form(request, await fields_of(request)):
            return self._form(request, "logout", 403, problem)
        self._sessions.close(request.cookies[_SESSION])
        answer = redirect("login")
        for name in (_SESSION, PERSON):
            self.set_cookie(request, answer, name, "", 0)
        return answer

    def is_logged_in(self, request: Request) -> bool:
        return self._sessions.is_open(request.cookies.get(_SESSION, ""))

    def _form(self, request: Request, form: str, status: int = 200, said: str = "") -> Response:
        def page(form_token: str) -> str:
            return served_page(
                "Log in to see the reports" if form == "login" else "Log out?",
                said,
                form=form,
                form_token=form_token,
                after=_next(request),
                from_elsewhere=request.method == "GET" and request.headers.get("sec-fetch-site") == "cross-site",
            )

        return self.with_form(request, page, status)

    def with_form(self, request: Request, page: Callable[[str], str], status: int = 200) -> Response:
        """What `page` makes of the token by which `problem_of_form` knows this server's forms again."""
        form_token = request.cookies.get(_FORM) or secrets.token_urlsafe(32)
        answer = html(page(form_token), status)
        self.set_cookie(request, answer, _FORM, form_token)
        return answer

    def problem_of_form(self, request: Request, fields: dict[str, str]) -> str | None:
        """Why a form is refused that a page of this server did not send, as far as browsers tell."""
        ours = {request.headers.get("host", "").lower(), urlsplit(self._base_url).netloc.lower()} - {""}
        if _host(request.headers.get("origin") or request.headers.get("referer") or "") not in ours:
            return (
                "The browser does not say that this form comes from this server. Behind a proxy, set "
                "RAGEVAL_REPORT_BASE_URL to the address that people open."
            )
        given, expected = fields.get("form", ""), request.cookies.get(_FORM, "")
        if not expected or not secrets.compare_digest(given.encode(errors="replace"), expected.encode()):
            return "This page was out of date, or the browser keeps no cookies. Try again."
        return None

    def set_cookie(
        self, request: Request, answer: Response, name: str, value: str, max_age_s: int | None = None
    ) -> None:
        secure = request.url.scheme == "https" or self._base_url.startswith("https:")
        answer.set_cookie(name, value, max_age_s, httponly=True, samesite="strict", secure=secure)


def _next(request: Request) -> str:
    """Where to go after the login: a report by its file name, or where people label; nothing else is heeded."""
    name = request.query_params.get("next", "")
    return name if _LABEL.fullmatch(name) else f"reports/{name if _NAME.fullmatch(name) else FLEET_FILE}"


def redirect(to: str) -> Response:
    """With GET; browsers keep the part of the address behind #."""
    return RedirectResponse(to, 303, _HEADERS)


def _host(address: str) -> str:
    try:
        return urlsplit(address).netloc.lower()
    except ValueError:
        return ""


async def fields_of(request: Request) -> dict[str, str]:
    """The fields of a form; none of one that is longer than ours."""
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > _MOST_BYTES:
            return {}
    try:
        fields = parse_qs(body.decode(), max_num_fields=10)
    except ValueError:
        return {}
    return {name: values[-1] for name, values in fields.items()}
