"""The reports as `rageval serve` serves them: who sees them, how long, and what is refused; in a browser, too."""

import re
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import quote

import httpx
import pytest
from playwright.sync_api import Browser, BrowserContext, Page

from rageval_dagster.api import PREFIX
from rageval_dagster.errors import DatabaseAwayError
from rageval_dagster.report.files import write_client_report, write_fleet_report
from rageval_dagster.report.serving import FAILURES_S, MOST_FAILURES, SESSION_S
from rageval_dagster.settings import load_settings
from rageval_dagster.storage.clients import ensure_client
from rageval_dagster.storage.database import Database
from rageval_dagster.telling.links import FLEET_FILE, ReportLinks, report_file
from tests.gate.gated_history import SPEC, evaluated, held, ranks
from tests.loopback import LoopbackServer, Quiet
from tests.report.served import TOKEN, Served, cookie, form_token, log_in, serving
from tests.storage.history_builder import make_dataset, make_items

ACME = report_file("acme")


@pytest.fixture
def served(db: Database, tmp_path: Path) -> Iterator[Served]:
    """The page of all clients, the reports of `acme`, and none of `beta`."""
    settings = load_settings({"RAGEVAL_HOME": str(tmp_path)}, env_file=tmp_path / "none.env")
    items = make_items(10)
    dataset = make_dataset(db, "acme", items)
    held(db, evaluated(db, dataset, "n1", ranks(items), items=items), spec=SPEC)
    ensure_client(db, "beta")
    for redacted in (False, True):
        write_client_report(db, settings, "acme", redacted)
    write_fleet_report(db, settings)
    (tmp_path / "serve_token").write_text(TOKEN, encoding="utf-8")
    with serving(db, tmp_path) as found:
        yield found


def test_nobody_sees_a_report_before_the_login(served: Served) -> None:
    for path in ("/reports/fleet.html", f"/reports/{ACME}", "/reports/no-such.html", "/logout"):
        answer = served.browser().get(path)
        assert (answer.status_code, answer.text) == (303, "")
        login = served.browser().get(path, follow_redirects=True)
        assert (login.status_code, login.url.path) == (200, "/login")
        assert "Log in" in login.text
        assert "acme" not in login.text.replace(ACME, "")


def test_the_token_opens_all_reports_and_the_login_leads_to_the_one_that_was_asked_for(served: Served) -> None:
    client = served.browser()
    asked = client.get(f"/reports/{ACME}", follow_redirects=True)
    answer = client.post(
        str(asked.url), data={"token": f" {TOKEN}\n", "form": form_token(asked)}, follow_redirects=True
    )
    assert answer.url.path == f"/reports/{ACME}"
    written = (served.folder / ACME).read_text(encoding="utf-8")
    links = (
        '<a href="experiments.html">Experiments</a><a href="../label">Label answers</a><a href="../logout">Log out</a>'
    )
    assert answer.text.replace(links, "") == written
    for path in ("/", "/reports", "/reports/", f"/reports/{FLEET_FILE}", "/login"):
        assert "<h1>All clients</h1>" in client.get(path, follow_redirects=True).text, path
    assert "texts left out" in client.get(f"/reports/{report_file('acme', redacted=True)}").text


def test_another_token_opens_nothing(served: Served) -> None:
    for token in ("", " ", "wrong", f"{TOKEN}x", TOKEN[:-1], "ä" * 20, "x" * 20_000):
        client = served.browser()
        answer = log_in(client, token)
        assert (answer.status_code, "rageval_session" in client.cookies) == (403, False), token[:30]
        assert token.strip() == "" or token not in answer.text
        assert client.get(f"/reports/{ACME}").status_code == 303


def test_a_session_is_a_cookie_that_scripts_and_other_sites_never_get(served: Served) -> None:
    answer = log_in(served.browser())
    session = cookie(answer, "rageval_session")
    assert (session["httponly"], session["samesite"].lower(), session["path"]) == (True, "strict", "/")
    assert int(session["max-age"]) == SESSION_S
    assert not session["secure"]  # plain http on this machine
    assert TOKEN not in session.value
    assert session.value != cookie(log_in(served.browser()), "rageval_session").value
    assert TOKEN not in str(answer.headers)


def test_over_tls_the_cookie_never_goes_over_plain_http(served: Served, db: Database, tmp_path: Path) -> None:
    """httpx keeps such a cookie back from this plain connection, as a browser does: it is given by hand here."""
    base_url = "https://reports.example.com/rageval/reports"
    with serving(db, tmp_path, RAGEVAL_REPORT_BASE_URL=base_url) as behind:
        for client in (
            served.browser(**{"X-Forwarded-Proto": "https"}),
            behind.browser(Origin="https://reports.example.com"),
        ):
            page = client.get("/login")
            form = cookie(page, "rageval_form")
            answer = client.post(
                "/login",
                data={"token": TOKEN, "form": form_token(page)},
                headers={"Cookie": f"rageval_form={form.value}"},
            )
            assert answer.status_code == 303
            assert form["secure"]
            assert cookie(answer, "rageval_session")["secure"]


def test_a_session_ends_by_itself(served: Served) -> None:
    client = served.logged_in()
    served.now[0] += SESSION_S - 1
    assert client.get(f"/reports/{ACME}").status_code == 200
    served.now[0] += 1
    assert client.get(f"/reports/{ACME}").status_code == 303


def test_a_made_up_session_is_none(served: Served) -> None:
    for value in (TOKEN, "", "x" * 43, cookie(served.browser().get("/login"), "rageval_form").value):
        answer = served.browser(Cookie=f"rageval_session={value}").get(f"/reports/{ACME}")
        assert answer.status_code == 303


def test_after_the_logout_the_cookie_opens_nothing(served: Served) -> None:
    client = served.logged_in()
    kept = dict(client.cookies)
    page = client.get("/logout")
    assert client.get(f"/reports/{ACME}").status_code == 200  # to look at the form ends nothing
    assert client.post("/logout", data={"form": form_token(page)}).headers["location"] == "login"
    assert "rageval_session" not in client.cookies
    with httpx.Client(base_url=served.origin, cookies=kept) as thief:
        assert thief.get(f"/reports/{ACME}").status_code == 303


def test_a_form_of_another_page_neither_logs_in_nor_out(served: Served) -> None:
    inside = served.logged_in()
    for headers in (
        {"Origin": "https://evil.example.com"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:1"},
        {"Origin": "http://[evil"},
        {"Origin": "", "Referer": "https://evil.example.com/127.0.0.1"},
        {"Origin": ""},
    ):
        client = served.browser()
        assert log_in(client, **headers).status_code == 403, headers
        assert "rageval_session" not in client.cookies
        form = {"form": form_token(inside.get("/logout"))}
        assert inside.post("/logout", data=form, headers=headers).status_code == 403, headers
        assert inside.get(f"/reports/{ACME}").status_code == 200


def test_a_form_without_its_own_token_neither_logs_in_nor_out(served: Served) -> None:
    client, other = served.browser(), served.browser()
    of_other = form_token(other.get("/login"))
    assert client.post("/login", data={"token": TOKEN, "form": of_other}).status_code == 403  # and no cookie yet
    client.get("/login")
    for form in ({"token": TOKEN}, {"token": TOKEN, "form": ""}, {"token": TOKEN, "form": of_other}):
        answer = client.post("/login", data=form)
        assert (answer.status_code, "rageval_session" in client.cookies) == (403, False)
    inside = served.logged_in()
    assert inside.post("/logout", data={"form": of_other}).status_code == 403
    assert inside.get(f"/reports/{ACME}").status_code == 200
    assert log_in(served.browser(), Origin="", Referer=f"{served.origin}/login").status_code == 303


def test_the_token_in_the_address_is_not_looked_at(served: Served) -> None:
    client = served.browser()
    form = {"form": form_token(client.get("/login"))}
    assert client.post(f"/login?token={TOKEN}", data=form).status_code == 403
    assert client.get(f"/reports/{ACME}?token={TOKEN}").status_code == 303


def test_who_guesses_must_wait_and_nobody_else(served: Served) -> None:
    client = served.browser()
    for _ in range(MOST_FAILURES):
        assert log_in(client, "a guess").status_code == 403
        served.now[0] += 1
    refused = log_in(client)  # even with the right one
    assert (refused.status_code, refused.headers["Retry-After"]) == (429, str(FAILURES_S - MOST_FAILURES))
    assert log_in(served.browser(**{"X-Forwarded-For": "192.0.2.7"})).status_code == 303
    served.now[0] += FAILURES_S - MOST_FAILURES
    assert log_in(client).status_code == 303


def test_who_guesses_at_the_endpoints_must_wait_and_nobody_else(served: Served) -> None:
    def ask(token: str, **headers: str) -> httpx.Response:
        return served.browser(Authorization=f"Bearer {token}", **headers).get(f"{PREFIX}/datasets")

    for _ in range(MOST_FAILURES):
        assert served.browser().get(f"{PREFIX}/datasets").status_code == 401  # nothing was guessed
    for _ in range(MOST_FAILURES):
        assert ask("a-guess").status_code == 401
        served.now[0] += 1
    refused = ask(TOKEN)
    assert (refused.status_code, refused.headers["Retry-After"]) == (429, str(FAILURES_S - MOST_FAILURES))
    assert "too many wrong tokens" in refused.json()["detail"]
    assert log_in(served.browser()).status_code == 429
    assert ask(TOKEN, **{"X-Forwarded-For": "192.0.2.7"}).status_code == 200
    served.now[0] += FAILURES_S - MOST_FAILURES
    assert ask(TOKEN).status_code == 200


def test_the_login_leads_nowhere_but_to_a_report(served: Served) -> None:
    for after in (
        *("//evil.example.com", "https://evil.example.com/", "/\\evil.example.com", "\\\\evil.example.com", "evil.com"),
        *("javascript:alert(1)", "../../etc/passwd", f"../{ACME}", "x.html\r\nSet-Cookie: a=b", "%2f%2fevil.html"),
        *(f"//evil/{ACME}", f"{ACME}?x", "@evil.html", '"><script>x.html', ""),
    ):
        client = served.browser()
        assert "evil" not in client.get(f"/login?next={quote(after)}").text
        answer = log_in(client, after=after)
        assert (answer.status_code, answer.headers["location"]) == (303, f"reports/{FLEET_FILE}"), after


def test_nothing_but_reports_is_read(served: Served) -> None:
    (served.folder / "notes.txt").write_text(TOKEN, encoding="utf-8")
    (served.folder / ".report-x.html").write_text(TOKEN, encoding="utf-8")
    (served.folder / "folder.html").mkdir()
    session = cookie(log_in(served.browser()), "rageval_session").value
    for path in (
        *("/reports/../serve_token", "/reports/..%2fserve_token", "/reports/%2e%2e%2fserve_token", "/serve_token"),
        *("/reports/..%5cserve_token", "/reports//etc/passwd", "/reports/%2fetc%2fpasswd", "/reports/serve_token"),
        *("/reports/.", "/reports/..", "/reports/.report-x.html", f"/reports/{ACME}%00", f"/reports/{ACME}/x"),
        *("/reports/folder.html", "/reports/ACME.html", "/reports/notes.txt", f"/reports/{ACME}%0a", "/reports/%"),
    ):
        connection = HTTPConnection("127.0.0.1", served.port)  # httpx would tidy the path
        connection.request("GET", path, headers={"Cookie": f"rageval_session={session}"})
        answer = connection.getresponse()
        assert answer.status in (404, 503), path
        assert answer.headers["content-type"].startswith("text/html")
        assert TOKEN.encode() not in answer.read()


def test_a_report_that_is_not_made_yet_says_which_command_makes_it(served: Served) -> None:
    client = served.logged_in()
    for redacted, command in ((False, "rageval report --client beta"), (True, "rageval report --client beta --redact")):
        answer = client.get(f"/reports/{report_file('beta', redacted)}")
        assert (answer.status_code, f"<pre>{command}</pre>" in answer.text) == (404, True)
    (served.folder / FLEET_FILE).unlink()
    assert "<pre>rageval report</pre>" in client.get("/", follow_redirects=True).text


def test_a_damaged_report_says_which_command_makes_it_anew(served: Served) -> None:
    (served.folder / ACME).write_bytes(b"<header></header>\xff")
    answer = served.logged_in().get(f"/reports/{ACME}")
    assert (answer.status_code, "<pre>rageval report</pre>" in answer.text) == (503, True)


def test_a_slash_at_the_end_leads_to_no_address_with_a_host(served: Served) -> None:
    for path in ("/login/", f"/reports/{ACME}/", f"{PREFIX}/runs/"):
        answer = served.browser(Host="evil.example", Authorization=f"Bearer {TOKEN}").get(path)
        assert (answer.status_code, "location" in answer.headers) == (404, False), path


def test_every_page_has_its_headers_and_none_is_kept(served: Served) -> None:
    client = served.logged_in()
    pages = [client.get(path) for path in (f"/reports/{ACME}", "/reports/fleet.html", "/logout", "/no/such/page", "/")]
    pages += [served.browser().get("/login"), client.get("/reports/no-such.html"), client.post("/reports/fleet.html")]
    for each in pages:
        told = each.headers
        if each.status_code != 303:
            assert told["content-type"] == "text/html; charset=utf-8"
            policy = dict(part.strip().split(" ", 1) for part in told["content-security-policy"].split(";"))
            assert (policy["default-src"], policy["frame-ancestors"]) == ("'none'", "'none'")
            assert re.fullmatch(r"'sha256-[A-Za-z0-9+/]+={0,2}'", policy["script-src"])
        assert told["x-content-type-options"] == "nosniff"
        assert told["x-frame-options"] == "DENY"
        assert told["referrer-policy"] == "same-origin"
        assert told["cache-control"] == "no-store"


def test_a_session_opens_no_endpoint_and_a_bearer_token_no_report(served: Served) -> None:
    client = served.logged_in()
    assert client.get(f"{PREFIX}/runs").status_code == 401
    assert client.post(f"{PREFIX}/runs", json={"dataset_id": 1}).status_code == 401
    bearer = {"Authorization": f"Bearer {TOKEN}"}
    assert client.get(f"{PREFIX}/datasets", headers=bearer).json()[0]["client_id"] == "acme"
    assert served.browser(**bearer).get(f"/reports/{ACME}").status_code == 303
    assert client.get(f"{PREFIX}/nothing", headers=bearer).json() == {"detail": "Not Found"}


def test_what_goes_wrong_is_a_page_without_words_of_documents(
    served: Served, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    client = served.logged_in()
    troubles: list[Exception] = [KeyError("words of a document"), DatabaseAwayError("the database is away")]

    def broken(*_: object) -> None:
        raise troubles[0]

    monkeypatch.setattr("rageval_dagster.report.serving.list_clients", broken)
    answer = client.get(f"/reports/{report_file('beta')}")
    assert (answer.status_code, "Something unexpected happened" in answer.text) == (500, True)
    assert "words of a document" not in answer.text + caplog.text
    assert "KeyError at serving.py" in caplog.text
    troubles.pop(0)
    answer = client.get(f"/reports/{report_file('beta')}")
    assert (answer.status_code, "The database is away" in answer.text) == (503, True)
    (served.folder / ACME).unlink()
    (served.folder / ACME).mkdir()
    assert "The report cannot be read" in client.get(f"/reports/{ACME}").text


# --- in a browser -----------------------------------------------------------------------------------------------------


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    context = browser.new_context()
    yield context
    context.close()


def fill_in(page: Page) -> None:
    page.get_by_label("Token").fill(TOKEN)
    page.get_by_role("button", name="Log in").click()


@pytest.mark.core
@pytest.mark.xdist_group("browser")
def test_a_link_leads_through_the_login_to_the_very_question(served: Served, context: BrowserContext) -> None:
    item = make_items(10)[7]
    link = ReportLinks(f"{served.origin}/reports").question("acme", 1, item.item_id)
    wrong: list[str] = []  # but that it was the wrong token, which a browser says, too
    page = context.new_page()
    page.on("console", lambda message: wrong.append(message.text) if "403" not in message.text else None)
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.goto(link or "")
    assert page.get_by_role("heading").inner_text() == "Log in to see the reports"
    page.get_by_label("Token").fill("wrong")
    page.get_by_label("Token").press("Enter")
    assert page.get_by_role("alert").inner_text() == "That is not the token."
    fill_in(page)
    page.wait_for_selector("html[data-ready]", state="attached")
    assert page.url == link
    assert page.locator("#question h2").inner_text() == item.question
    page.get_by_role("link", name="Log out").click()
    page.get_by_role("button", name="Log out").click()
    page.get_by_label("Token").wait_for()
    page.goto(link or "")
    page.get_by_label("Token").wait_for()
    assert wrong == []


@pytest.mark.core
@pytest.mark.xdist_group("browser")
def test_who_is_logged_in_gets_to_the_question_from_a_link_on_another_site(
    served: Served, context: BrowserContext
) -> None:
    """The browser holds the session's cookie back from such a link: a chat's page, or the Dagster UI on `localhost`."""
    item = make_items(10)[7]
    link = ReportLinks(f"{served.origin}/reports").question("acme", 1, item.item_id)

    class Elsewhere(Quiet):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(f'<a href="{link}">the question</a>'.encode())

    with LoopbackServer(Elsewhere) as elsewhere:
        page = context.new_page()
        page.goto(f"http://localhost:{elsewhere.port}/")
        page.get_by_role("link").click()
        fill_in(page)
        page.wait_for_selector("html[data-ready]", state="attached")
        assert page.url == link
        page.goto(f"http://localhost:{elsewhere.port}/")
        page.get_by_role("link").click()
        page.wait_for_selector("html[data-ready]", state="attached")
    assert page.url == link
    assert page.locator("#question h2").inner_text() == item.question
