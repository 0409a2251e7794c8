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
from rageval_dagster.telling.links import EXPERIMENTS_FILE, FLEET_FILE, experiment_file, report_file
from rageval_dagster.telling.words import capitalised, metric_name, minute

SESSION_S = 12 * 3600
"""After so many seconds a person logs in again."""
MOST_FAILURES = 10
FAILURES_S = 60
"""An address that gave so many wrong tokens within so many seconds, to the login or to the endpoints, waits until the
first of them is that old."""
TOO_MANY = "too many wrong tokens: try again in {seconds} seconds"
_MOST_BYTES = 50_000
_SESSION, _FORM = "rageval_session", "rageval_form"
PERSON = "rageval_person"
"""The cookie with the name of who labels; it ends with the browser, and with a logout."""
_NAME = re.compile(r"[a-z0-9-]+(\.redacted)?\.html")
_EXPERIMENT = re.compile(experiment_file(0).replace("0", r"(\d{1,9})"), re.ASCII)
_LINKS = (
    f'<a href="{EXPERIMENTS_FILE}">Experiments</a><a href="../label">Label answers</a><a href="../logout">Log out</a>'
)
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


class Token:
    """The token of this process, and who gave wrong ones. Times are seconds of the `clock`."""

    def __init__(self, token: SecretStr, clock: Callable[[], float]) -> None:
        self._token = token.get_secret_value().encode()
        self._clock = clock
        self._failures: dict[str, list[float]] = {}

    def is_right(self, given: bytes, address: str) -> bool:
        """Whether that is the token; a wrong one is noted, which takes as long whatever is wrong with it."""
        if given and secrets.compare_digest(given, self._token):
            return True
        self._failures.setdefault(address, []).append(self._clock())
        return False

    def must_wait_s(self, address: str) -> int:
        """How long that address may not try again; 0 where it may."""
        since = self._clock() - FAILURES_S
        recent = {each: [time for time in times if time > since] for each, times in self._failures.items()}
        self._failures = {each: times for each, times in recent.items() if times}
        failures = self._failures.get(address, [])
        return math.ceil(failures[0] - since) if len(failures) >= MOST_FAILURES else 0


class Sessions:
    """Who is logged in to this process. Times are seconds of the `clock`."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._ends: dict[bytes, float] = {}

    def open(self) -> str:
        """A new session's secret."""
        now, secret = self._clock(), secrets.token_urlsafe(32)
        self._ends = {key: end for key, end in self._ends.items() if end > now} | {_hashed(secret): now + SESSION_S}
        return secret

    def is_open(self, secret: str) -> bool:
        return self._ends.get(_hashed(secret), 0) > self._clock()

    def close(self, secret: str) -> None:
        self._ends.pop(_hashed(secret), None)


def _hashed(secret: str) -> bytes:
    """Sessions are looked up by this: the time that takes says nothing about the secret."""
    return hashlib.sha256(secret.encode(errors="replace")).digest()


class ReportPages:
    """The page of all clients, each client's, login and logout.

    Addresses in them are relative, so that a proxy may serve them under any path.
    """

    def __init__(self, settings: Settings, db: Database, token: Token, clock: Callable[[], float]) -> None:
        self._settings = settings
        self._folder = settings.report_dir
        self._base_url = settings.report_base_url or ""
        self._db = db
        self._token = token
        self._sessions = Sessions(clock)

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
        if name == EXPERIMENTS_FILE:
            return self._experiments()
        try:
            if number := _EXPERIMENT.fullmatch(name):
                return self._experiment(int(number[1]))
            page = read_report(self._folder / name)
        except FileNotFoundError:
            return self._missing(name)
        except OSError as error:
            return html(served_page("The report cannot be read", f"{error.filename}: {error.strerror}"), 503)
        except RagevalError as error:
            return html(served_page("The report cannot be read", str(error)), 503)
        except UnicodeDecodeError:
            return html(
                served_page("The report is damaged", "This command makes all reports again:", "rageval report"), 503
            )
        return self._with_links(page)

    def _experiment(self, number: int) -> Response:
        """An experiment's report; of one that goes on what is known so far, made just now."""
        from rageval_dagster.report.experiment import report_of
        from rageval_dagster.storage.experiments import find_experiment

        experiment = find_experiment(self._db, number)
        if experiment is None:
            said = "It may have been forgotten with its client. This command lists the existing ones:"
            return html(served_page(f"There is no experiment {number}", said, "rageval experiment list"), 404)
        return self._with_links(report_of(self._db, self._settings, experiment))

    def _experiments(self) -> Response:
        """All experiments as links, newest first."""
        from rageval_dagster.storage.experiments import list_experiments

        links = [
            (
                experiment_file(each.number),
                f"{each.number}: {each.client_id}, {each.status}, {metric_name(each.objective)}, "
                f"{minute(each.opened_at)} UTC",
            )
            for each in list_experiments(self._db)
        ]
        if links:
            return self._with_links(served_page("Experiments", links=links))
        said = "They find out which chunk size, retriever or model is best. This command runs one:"
        return self._with_links(served_page("There are no experiments yet", said, "rageval experiment run FILE"))

    @staticmethod
    def _with_links(page: str) -> Response:
        return html(page.replace("</header>", f"{_LINKS}</header>", 1))

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
        if seconds := self._token.must_wait_s(address):
            answer = self._form(request, "login", 429, f"{capitalised(TOO_MANY.format(seconds=seconds))}.")
            answer.headers["Retry-After"] = str(seconds)
            return answer
        if not self._token.is_right(fields.get("token", "").strip().encode(errors="replace"), address):
            return self._form(request, "login", 403, "That is not the token.")
        answer = redirect(_next(request))
        self.set_cookie(request, answer, _SESSION, self._sessions.open(), SESSION_S)
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
