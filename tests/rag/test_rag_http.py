"""Systems over HTTP, against real servers on loopback: what is sent, what is made of all that can come back."""

import datetime
import ipaddress
import logging
import socket
import ssl
import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from rageval_dagster.errors import SettingsError
from rageval_dagster.rag import http as http_module
from rageval_dagster.rag.system import RagSystem, Retrieval
from rageval_dagster.records import Answer, Hit, Item
from tests.loopback import free_port
from tests.rag.definitions import load
from tests.rag.rag_server import Asked, RagServer, Reply, answering, redirect, sse

SECRET = "canary-secret-8731"
TEXT = "canary text of a customer"


@pytest.fixture(autouse=True)
def _no_long_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_module, "BACKOFF_S", (0.001, 0.002))


def system(
    folder: Path, url: str, variables: Mapping[str, str] | None = None, path: str = "/ask", **fields: Any
) -> RagSystem:
    return load(folder, variables, kind="http", url=url + path, **{"timeout_s": 30, "concurrency": 1, **fields})


def items(*questions: str) -> list[Item]:
    return [Item(question) for question in questions]


def one(system: RagSystem, question: str = "q", depth: int = 10) -> Retrieval:
    (retrieval,) = system.retrieve(items(question), depth)
    return retrieval


def text_of(retrieval: Retrieval) -> str | None:
    return retrieval.answer.answer.text if retrieval.answer and retrieval.answer.answer else None


# --- what is sent -----------------------------------------------------------------------------------------------------


def test_the_request_is_the_template_with_values_in_their_own_types(tmp_path: Path) -> None:
    request = {
        "query": {"text": "{question}", "note": "to {client}: {{top {k}}} {principal.team}"},
        "top_k": "{k}",
        "messages": "{history}",
        "user": "{principal}",
        "groups": "{principal.groups}",
        "missing": "{principal.nobody}",
        "list": ["{principal.nobody}", "{k}", True],
    }
    item = Item("Wie, bitte? {k}", history=({"role": "user", "content": "Hi"},), principal={"team": 7, "groups": ["a"]})
    with RagServer() as server:
        ours = system(tmp_path, server.url, request=request)
        ours.retrieve([item], 12)
        ours.retrieve(items("q"), 10)
    asked, bare = server.asked
    assert (asked.method, asked.path, asked.headers["content-type"]) == ("POST", "/ask", "application/json")
    assert asked.body == {
        "query": {"text": "Wie, bitte? {k}", "note": "to acme: {top 12} 7"},
        "top_k": 12,
        "messages": [{"role": "user", "content": "Hi"}],
        "user": {"team": 7, "groups": ["a"]},
        "groups": ["a"],
        "list": [12, True],
    }
    assert bare.body == {
        "query": {"text": "q", "note": "to acme: {top 10} "},
        "top_k": 10,
        "messages": [],
        "list": [10, True],
    }, "a principal that nobody gave is left out"


def test_a_get_has_it_in_the_query_and_addresses_are_encoded(tmp_path: Path) -> None:
    ours = system(
        tmp_path,
        (server := RagServer()).url,
        path="/of/{client}/{question}?fixed=1",
        method="GET",
        request={"q": "{question}", "k": "{k}", "user": "{principal.name}", "history": "{history}"},
    )
    with server:
        one(ours, "a/b? & ü#")
    (asked,) = server.asked
    assert asked.method == "GET"
    assert asked.path == "/of/acme/a%2Fb%3F%20%26%20%C3%BC%23"
    assert asked.query == {"fixed": "1", "q": "a/b? & ü#", "k": "10", "history": "[]"}


def test_parameters_of_the_systems_own_stand_in_address_and_request_and_are_part_of_its_version(tmp_path: Path) -> None:
    fields: dict[str, Any] = {
        "path": "/v/{param.model}",
        "request": {"q": "{question}", "t": "{param.temperature}", "rerank": "{param.rerank}", "s": "at {param.model}"},
    }
    with RagServer() as server:
        small = system(tmp_path, server.url, params={"model": "s 1", "temperature": 0.2, "rerank": True}, **fields)
        large = system(tmp_path, server.url, params={"model": "l", "temperature": 0.2, "rerank": True}, **fields)
        one(small)
    (asked,) = server.asked
    assert asked.path == "/v/s%201"
    assert asked.body == {"q": "q", "t": 0.2, "rerank": True, "s": "at s 1"}
    assert small.version != large.version


def test_a_parameter_without_a_value_is_one_clear_error(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"a value for \{param.model\}: params = \{model = ...\}"):
        system(tmp_path, "http://127.0.0.1:1", path="/{param.model}")


def test_a_question_that_would_change_the_address_is_not_asked(tmp_path: Path) -> None:
    with RagServer() as server:
        found = system(tmp_path, server.url, path="/of/{question}/x").retrieve(items("..", "fine", "\ud800"), 10)
    assert [retrieval.error for retrieval in found] == [
        "not_asked: the question does not fit into the address",
        None,
        "not_asked: the question does not fit into the address",
    ]
    assert [asked.path for asked in server.asked] == ["/of/fine/x"]


def test_any_text_can_be_asked(tmp_path: Path) -> None:
    hostile = ["'; DROP TABLE x; --", "\x00\x07", "\u202eabc", "half \ud800 pair", "x" * 1_000_000]
    with RagServer(lambda asked: answering(asked.question)) as server:
        found = system(tmp_path, server.url).retrieve(items(*hostile), 10)
    assert [text_of(retrieval) for retrieval in found] == hostile


def test_secrets_are_headers_and_come_from_files_too(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("from-a-file\n")
    variables = {"TOKEN": SECRET, "KEY_FILE": str(tmp_path / "key")}
    with RagServer() as server:
        one(
            system(
                tmp_path,
                server.url,
                variables,
                auth_env="TOKEN",
                headers_env={"X-Api-Key": "KEY"},
                headers={"X-Tenant": "t1", "Content-Type": "application/json; v=2"},
            )
        )
    headers = server.asked[0].headers
    assert (headers["authorization"], headers["x-api-key"]) == (f"Bearer {SECRET}", "from-a-file")
    assert (headers["x-tenant"], headers["content-type"]) == ("t1", "application/json; v=2")


@pytest.mark.parametrize(
    ("fields", "variables", "said"),
    [
        ({"auth_env": "TOKEN"}, {}, "names the variable 'TOKEN', which is not set"),
        ({"auth_env": "TOKEN"}, {"TOKEN": f"{SECRET}\r\nX: y"}, "TOKEN cannot be sent as Authorization"),
        ({"headers_env": {"X-Key": "KEY"}}, {"KEY": f"{SECRET}ä"}, "KEY cannot be sent as X-Key"),
        ({"headers": {"X-A": "b\r\nX-C: d"}}, {}, "headers takes values of one line"),
        ({"headers": {"X-Api-Key": SECRET}}, {}, "headers takes no secrets"),
        ({"headers_env": {"X A": "KEY"}}, {"KEY": SECRET}, "headers_env takes names of HTTP headers"),
        ({"request": {"q": ["{qestion}"]}}, {}, "request takes the placeholders {question}"),
        ({"request": {"q": "a { b"}}, {}, "request takes placeholders such as {question}"),
        ({"url": "http://{client}.example.org/"}, {}, "url takes an address such as"),
        ({"url": "http://10.0.0.1/", "auth_env": "TOKEN"}, {"TOKEN": SECRET}, "would get secrets without encryption"),
        ({"version_url": "http://b.org/", "auth_env": "TOKEN"}, {"TOKEN": SECRET}, "b.org would get secrets without"),
        ({"url": "https://\u2603..b/"}, {}, "'\u2603..b' is no host"),
        ({"response": {"answer": "a["}}, {}, "response.answer takes a JMESPath expression"),
    ],
)
def test_a_definition_that_cannot_work_is_one_clear_error(
    tmp_path: Path, fields: dict[str, Any], variables: dict[str, str], said: str
) -> None:
    with pytest.raises(SettingsError) as raised:
        load(tmp_path, variables, **{"kind": "http", "url": "http://127.0.0.1/", **fields})
    assert said in str(raised.value)
    assert SECRET not in str(raised.value)


@pytest.mark.parametrize(
    ("url", "fields"),
    [
        ("http://10.0.0.1/", {}),
        ("http://10.0.0.1/", {"auth_env": "T", "allow_plain_http": True}),
        ("http://localhost:1/", {"auth_env": "T"}),
    ],
)
def test_plain_http_is_for_this_machine_or_without_secrets_or_allowed(
    tmp_path: Path, url: str, fields: dict[str, Any]
) -> None:
    load(tmp_path, {"T": SECRET}, kind="http", url=url, **fields)


# --- what comes back --------------------------------------------------------------------------------------------------


def test_a_plain_text_may_be_the_answer(tmp_path: Path) -> None:
    reply = Reply("Gr\xfcn.".encode("latin-1"), headers={"Content-Type": "text/plain; charset=latin-1"})
    with RagServer(reply) as server:
        whole = one(system(tmp_path, server.url, response={"answer": "@"}))
        mapped = one(system(tmp_path, server.url))
    assert (text_of(whole), whole.hits) == ("Grün.", None)
    assert mapped.error == "wrong_shape: the body is no JSON"


@pytest.mark.parametrize(
    ("reply", "error"),
    [
        (Reply(status=404, body=TEXT), "http_status: 404"),
        (Reply(status=503, body=TEXT), "http_status: 503 after 2 attempts"),
        (Reply(fault="disconnect"), "connection: closed without a valid response after 2 attempts"),
        (Reply(fault="hang"), "timeout: no whole response within 0.5 s after 2 attempts"),
        (Reply(TEXT, fault="drip"), "timeout: no whole response within 0.5 s after 2 attempts"),
        (Reply({"answer": TEXT}, fault="cut"), "broken_stream: the connection closed before the end after 2 attempts"),
        (Reply(f"<html>{TEXT}"), "wrong_shape: the body is no JSON"),
        (Reply('{"answer": "' + TEXT), "wrong_shape: the body is no JSON"),
        (Reply("[" * 100_000), "wrong_shape: the body is nested deeper than 100 levels"),
        (Reply(b"\xff\xfe\xfd"), "wrong_shape: the body is no JSON"),
        (
            Reply(b"none", headers={"Content-Encoding": "gzip"}),
            "broken_stream: the connection closed before the end",
        ),
        (Reply({"answer": TEXT, "contexts": TEXT}), "wrong_shape: contexts is a string, not a list"),
        (Reply({"answer": TEXT}), "wrong_shape: contexts is missing"),
        (Reply(b" " * 10_000_001), "too_large: more than 10 MB"),
    ],
)
def test_one_that_fails_is_a_typed_error_and_stops_no_other(tmp_path: Path, reply: Reply, error: str) -> None:
    def behave(asked: Asked) -> Reply:
        return reply if asked.question == "bad" else answering(asked.question)

    with RagServer(behave) as server:
        ours = system(tmp_path, server.url, timeout_s=0.5 if "timeout" in error else 30, max_attempts=2)
        found = ours.retrieve(items("a", "bad", "b"), 10)
    assert found[1].error is not None
    assert found[1].error.startswith(error)
    assert [text_of(retrieval) for retrieval in found] == ["a", None, "b"]
    assert TEXT not in repr(found[1])


# --- streams ----------------------------------------------------------------------------------------------------------

DELTAS = {"delta": "choices[0].delta", "citations": "used", "version": "model"}


def test_server_sent_events_add_up(tmp_path: Path) -> None:
    body = (
        ": a comment\r\n\r\n"
        'event: message\rdata: {"choices": [{"delta": "It is "}], "contexts": ["old"], "model": "m1"}\r\r'
        'data: {"choices":\ndata: [{"delta": "so\u2028."}]}\nid: 7\n\n'
        'data: {"contexts": [{"id": "c1"}], "used": [1]}\n\n'
        "data: [DONE]\n\n"
        "data: after the end nothing counts\n\n"
    ).encode()
    pieces = [body[start : start + 7] for start in range(0, len(body), 7)]
    with RagServer(Reply(pieces, headers={"Content-Type": "text/event-stream"})) as server:
        retrieval = one(system(tmp_path, server.url, stream="sse", response=DELTAS))
    assert retrieval.error is None
    assert retrieval.hits == (Hit("c1", "", 1, 0.0),)
    assert retrieval.answer is not None
    assert retrieval.answer.answer == Answer("It is so\u2028.", citations=("1",))
    assert retrieval.version == "m1"
    assert retrieval.answer.latency_s is not None
    assert retrieval.answer.latency_s > 0
    assert server.asked[0].headers["accept"] == "text/event-stream"


def test_after_the_last_event_nobody_waits_for_the_connection_to_close(tmp_path: Path) -> None:
    with RagServer(Reply([sse({"delta": "hi", "contexts": []}, "[DONE]")], fault="open")) as server:
        retrieval = one(system(tmp_path, server.url, stream="sse", response={"delta": "delta"}))
    assert (text_of(retrieval), retrieval.hits) == ("hi", ())


def test_lines_of_json_add_up_or_end_with_the_whole_answer_and_text_is_the_answer(tmp_path: Path) -> None:
    body = b'{"token": "a"}\n\n{"token": "b", "contexts": ["c"]}\r\n{"answer": "ab, revised"}'
    with RagServer(Reply(body)) as server:
        added = one(system(tmp_path, server.url, stream="lines", response={"delta": "token"}))
        last = one(system(tmp_path, server.url, stream="lines"))
    assert (text_of(added), text_of(last)) == ("ab", "ab, revised")
    with RagServer(Reply([b"Gr", b"\xc3", b"\xbcn"])) as server:
        plain = one(system(tmp_path, server.url, stream="text"))
    assert (text_of(plain), plain.hits) == ("Grün", None)


@pytest.mark.parametrize(
    ("stream", "reply", "error"),
    [
        ("sse", Reply([sse({"delta": TEXT})], fault="cut"), "the connection closed before the end"),
        ("lines", Reply([b'{"delta": "a"}\n'], fault="cut"), "the connection closed before the end"),
        ("text", Reply([TEXT.encode()], fault="cut"), "the connection closed before the end"),
        ("sse", Reply(sse({"delta": "a"}) + b'data: {"delta": "' + TEXT.encode()), "an event is not whole JSON"),
        ("lines", Reply('{"delta": "a"}\n{"delta": "' + TEXT), "an event is not whole JSON"),
        ("sse", Reply(sse({"delta": "a"}) + b"event: error\ndata: {}\n\n"), "the stream reports an error"),
        ("sse", Reply({"answer": TEXT, "contexts": []}), "the stream holds no event"),
        ("lines", Reply(b""), "the stream holds no event"),
        ("lines", Reply(b'{"delta": "\xff"}'), "the stream is not UTF-8"),
    ],
)
def test_a_stream_that_is_not_whole_is_no_answer(tmp_path: Path, stream: str, reply: Reply, error: str) -> None:
    with RagServer(reply) as server:
        retrieval = one(system(tmp_path, server.url, stream=stream, max_attempts=1, response={"delta": "delta"}))
    assert retrieval == Retrieval(error=f"broken_stream: {error}")


# --- retries, limits --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "reply", [*(Reply(status=status) for status in (408, 425, 429, 500, 502, 503, 504)), Reply(fault="disconnect")]
)
def test_what_can_pass_is_tried_again(tmp_path: Path, reply: Reply) -> None:
    with RagServer(first=[reply, reply]) as server:
        retrieval = one(system(tmp_path, server.url))
    assert (text_of(retrieval), len(server.asked)) == ("fine", 3)


@pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 422])
def test_what_cannot_pass_is_not(tmp_path: Path, status: int) -> None:
    with RagServer(Reply(status=status)) as server:
        assert one(system(tmp_path, server.url)).error == f"http_status: {status}"
    assert len(server.asked) == 1


@pytest.mark.parametrize(("asked_for", "least", "most"), [("2", 2, 2.5), ("3600", 5, 6.25), ("soon", 0, 0.1)])
def test_the_server_says_how_long_to_wait_up_to_the_timeout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked_for: str, least: float, most: float
) -> None:
    waits: list[float] = []
    real_sleep = http_module.asyncio.sleep

    async def note(seconds: float) -> None:
        waits.append(seconds)
        await real_sleep(0)

    monkeypatch.setattr(http_module.asyncio, "sleep", note)
    with RagServer(first=[Reply(status=429, headers={"Retry-After": asked_for})]) as server:
        assert text_of(one(system(tmp_path, server.url, timeout_s=5))) == "fine"
    assert least <= max(waits) <= most


def test_as_many_at_once_as_set_and_no_more(tmp_path: Path) -> None:
    with RagServer(lambda asked: answering(asked.question), at_once=3) as server:
        found = system(tmp_path, server.url, concurrency=3).retrieve(items(*map(str, range(9))), 10)
    assert server.most_at_once == 3
    assert [text_of(retrieval) for retrieval in found] == [str(number) for number in range(9)]


def test_questions_start_no_faster_than_set(tmp_path: Path) -> None:
    with RagServer() as server:
        ours = system(tmp_path, server.url, concurrency=4, rate_per_s=50)
        started = time.monotonic()
        for batch in (items("a", "b", "c"), items("d", "e")):
            ours.retrieve(batch, 10)
        assert time.monotonic() - started >= 4 / 50


def test_an_endpoint_that_is_not_there_is_not_asked_everything(tmp_path: Path) -> None:
    ours = system(tmp_path, f"http://127.0.0.1:{free_port()}", max_attempts=1)
    errors = [retrieval.error for retrieval in ours.retrieve(items(*map(str, range(8))), 10)]
    assert errors == ["connection: cannot connect"] * 5 + ["not_asked: 5 questions before could not connect"] * 3
    assert one(ours).error == "not_asked: 5 questions before could not connect"


def test_one_that_takes_no_connection_is_not_there(tmp_path: Path) -> None:
    with socket.socket() as full, ExitStack() as clients:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        for _ in range(4):  # more than wait in line
            client = clients.enter_context(socket.socket())
            client.setblocking(False)
            client.connect_ex(full.getsockname())
        ours = system(tmp_path, f"http://127.0.0.1:{full.getsockname()[1]}", timeout_s=0.2, max_attempts=1)
        assert one(ours).error == "connection: cannot connect"
    assert one(system(tmp_path, "https://a..b", max_attempts=1)).error == "connection: cannot connect"


def test_one_that_was_there_before_is_asked_on(tmp_path: Path) -> None:
    with RagServer(Reply(status=500)) as server:
        ours = system(tmp_path, server.url, max_attempts=1)
        one(ours)
    errors = [retrieval.error for retrieval in ours.retrieve(items(*map(str, range(7))), 10)]
    assert errors == ["connection: cannot connect"] * 7


# --- where it goes ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_a_redirect_on_the_same_server_keeps_question_and_credentials(tmp_path: Path, status: int) -> None:
    def behave(asked: Asked) -> Reply:
        return redirect("/v2/ask", status) if asked.path == "/ask" else answering(asked.question)

    with RagServer(behave) as server:
        assert text_of(one(system(tmp_path, server.url, {"T": SECRET}, auth_env="T"), "still there?")) == "still there?"
    assert [asked.headers["authorization"] for asked in server.asked] == [f"Bearer {SECRET}"] * 2


def test_a_redirect_elsewhere_is_refused_and_nothing_is_forwarded(tmp_path: Path) -> None:
    with RagServer() as other, RagServer(redirect(f"{other.url}/ask?x={TEXT}")) as server:
        retrieval = one(system(tmp_path, server.url, {"T": SECRET}, auth_env="T", headers_env={"X-Api-Key": "T"}))
        named = one(system(tmp_path, f"http://localhost:{server.port}", {"T": SECRET}, auth_env="T"))
    assert retrieval.error == named.error == "redirect_refused: to another scheme, host or port"
    assert other.asked == []


@pytest.mark.parametrize(
    ("location", "error"),
    [
        ("/ask", "redirect_refused: more than 3 in a row"),
        ("https://127.0.0.1/ask", "redirect_refused: to another scheme, host or port"),
        ("//169.254.169.254/latest", "redirect_refused: to another scheme, host or port"),
        ("file:///etc/passwd", "redirect_refused: to another scheme, host or port"),
        ("//127.0.0.1:none/", "connection: closed without a valid response"),
    ],
)
def test_redirects_lead_nowhere_else(tmp_path: Path, location: str, error: str) -> None:
    with RagServer(redirect(location)) as server:
        assert one(system(tmp_path, server.url, max_attempts=1)).error == error
    assert len(server.asked) == (4 if location == "/ask" else 1)


def test_no_session_goes_from_one_question_to_the_next(tmp_path: Path) -> None:
    reply = Reply({"answer": "a", "contexts": []}, headers={"Set-Cookie": "session=1; Path=/"})
    with RagServer(reply) as server:
        system(tmp_path, server.url).retrieve(items("a", "b"), 10)
    assert all("cookie" not in asked.headers for asked in server.asked)


def test_what_stays_on_this_machine_goes_through_no_proxy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with RagServer() as proxy, RagServer() as server:
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, proxy.url)
        for name in ("no_proxy", "NO_PROXY"):
            monkeypatch.delenv(name, raising=False)
        assert text_of(one(system(tmp_path, server.url))) == "fine"
    assert (len(proxy.asked), len(server.asked)) == (0, 1)


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """A certificate for 127.0.0.1 that nobody has signed, with its key."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.datetime.now(datetime.UTC)
    signed = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    path = tmp_path / "certificate.pem"
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path.write_bytes(signed.public_bytes(serialization.Encoding.PEM) + private)
    return path


def test_a_certificate_that_nobody_vouches_for_is_refused(
    tmp_path: Path, certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate)
    with RagServer(tls=tls) as server:
        refused = one(system(tmp_path, server.url, {"T": SECRET}, auth_env="T"))
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        trusted = one(system(tmp_path, server.url, {"T": SECRET}, auth_env="T"))
    assert refused.error == "connection: the certificate is not trusted"
    assert text_of(trusted) == "fine"
    assert len(server.asked) == 1


def test_nothing_is_logged_of_secrets_and_texts(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    replies = [
        answering(TEXT, [TEXT]),
        Reply({"answer": TEXT, "contexts": TEXT}),
        Reply(TEXT, status=401, headers={"X-Echo": TEXT, "WWW-Authenticate": SECRET}),
        Reply(TEXT, status=503),
        Reply(fault="disconnect"),
        Reply(TEXT, fault="cut"),
        Reply(TEXT, fault="hang"),
        redirect(f"/again?{SECRET}"),  # to the next one
        redirect(f"http://example.org/{SECRET}"),
        Reply(b" " * 10_000_001),
    ]
    for name in (None, "httpx", "httpcore", "asyncio"):
        caplog.set_level(logging.DEBUG, name)
    variables = {"T": SECRET}
    fields: dict[str, Any] = {"auth_env": "T", "headers_env": {"X-Key": "T"}, "timeout_s": 1, "max_attempts": 1}
    with RagServer(first=replies) as server:
        ours = system(tmp_path, server.url, variables, path="/{question}?q={question}", **fields)
        found = ours.retrieve(items(*[TEXT] * (len(replies) - 1)), 10)
    found.append(one(system(tmp_path, f"http://127.0.0.1:{free_port()}", variables, **fields), TEXT))
    assert sum(retrieval.error is not None for retrieval in found) == len(replies) - 1
    logging.getLogger("asyncio").debug("this is logged")
    said = caplog.text + repr(ours) + "".join(retrieval.error or "" for retrieval in found)
    assert "this is logged" in said
    assert "canary" not in said


# --- versions ---------------------------------------------------------------------------------------------------------


def declared(system: RagSystem) -> str | None:
    return system.declared_version(Item("q"), 10)


@pytest.mark.parametrize(
    ("reply", "response", "version"),
    [
        (Reply("2024-05-01\n", headers={"Content-Type": "text/plain"}), {}, "2024-05-01"),
        (Reply({"build": {"id": 12}}), {"version": "build.id"}, "12"),
        (Reply('"v3"'), {}, "v3"),
        (Reply({"status": "ok"}), {"version": "build.id"}, None),
        (Reply({"status": "ok"}), {}, None),
        (Reply("x" * 201), {}, None),
        (Reply("two\nlines"), {}, None),
        (Reply(""), {}, None),
        (Reply("down", status=500), {}, None),
        (Reply(fault="disconnect"), {}, None),
    ],
)
def test_a_version_endpoint_is_asked_once_with_the_same_headers(
    tmp_path: Path, reply: Reply, response: dict[str, str], version: str | None
) -> None:
    def behave(asked: Asked) -> Reply:
        return reply if asked.path == "/version" else answering(build={"id": "other"})

    with RagServer(behave) as server:
        ours = system(
            tmp_path,
            server.url,
            {"T": SECRET},
            version_url=f"{server.url}/version",
            auth_env="T",
            response=response,
            max_attempts=1,
        )
        assert [declared(ours), declared(ours)] == [version, version]
        assert text_of(one(ours)) == "fine"
    first, *others = server.asked
    assert (first.method, first.path, first.headers["authorization"]) == ("GET", "/version", f"Bearer {SECRET}")
    assert [asked.path for asked in others] == ["/ask"]


def test_answers_name_their_version_and_the_first_question_is_asked_once(tmp_path: Path) -> None:
    def behave(asked: Asked) -> Reply:
        return answering(asked.question, build="new" if asked.question == "c" else "old")

    with RagServer(behave) as server:
        ours = system(tmp_path, server.url, response={"version": "build"})
        assert declared(system(tmp_path, server.url, version="7")) == "7"
        assert declared(system(tmp_path, server.url)) is None
        assert server.asked == [], "what the definition says, or nothing says, is asked of nobody"
        assert ours.declared_version(Item("b"), 10) == "old"
        found = ours.retrieve(items("a", "b", "c"), 10)
    assert server.questions == ["b", "a", "c"]
    assert [(text_of(retrieval), retrieval.version) for retrieval in found] == [
        ("a", "old"),
        ("b", "old"),
        ("c", "new"),
    ]


def test_versions_change_with_what_the_system_is_and_not_with_how_it_is_reached(tmp_path: Path) -> None:
    def version(settings: Mapping[str, Any] | None = None, **fields: Any) -> str:
        url = fields.pop("url", "http://127.0.0.1:1/")
        ours = load(tmp_path, {"T": SECRET, "U": "other"}, settings, **{"kind": "http", "url": url, **fields})
        declared(ours)
        assert ours.version == ours.retrieval_version == ours.answer_version
        return ours.version

    same = [
        version(),
        version(auth_env="T"),
        version(auth_env="U", headers_env={"X-Key": "T"}),
        version(timeout_s=1, max_attempts=9, concurrency=2, rate_per_s=3, allow_plain_http=True),
    ]
    different = [
        version(version="1"),
        version(version="2"),
        version(url="http://127.0.0.1:1/other"),
        version(method="GET"),
        version(headers={"X-Model": "large"}),
        version(request={"q": "{question}"}),
        version(response={"answer": "text"}),
        version(stream="sse"),
        version({"decline_phrases": ["no idea"]}),
    ]
    assert len(set(same)) == 1
    assert len({*same, *different}) == 1 + len(different)


def test_lost_answers_are_asked_for_again(tmp_path: Path) -> None:
    def behave(asked: Asked) -> Reply:
        return Reply(status=404) if asked.question == "bad" else answering(asked.question)

    with RagServer(behave) as server:
        ours = system(tmp_path, server.url, version="1")
        ours.declared_version(Item("a"), 12)
        outcomes = ours.answer(items("a", "bad"), [["x"], ["y"]])
    assert [outcome.error for outcome in outcomes] == [None, "http_status: 404"]
    assert outcomes[0].answer == Answer("a")
    assert [asked.body["k"] for asked in server.asked] == [12, 12]


def test_a_version_kept_elsewhere_is_asked_for_without_secrets(tmp_path: Path) -> None:
    with RagServer(lambda asked: Reply(b"v7")) as elsewhere, RagServer(lambda asked: answering("fine")) as server:
        ours = system(tmp_path, server.url, {"T": SECRET}, version_url=f"{elsewhere.url}/version", auth_env="T")
        assert declared(ours) == "v7"
        assert text_of(one(ours)) == "fine"
    assert [asked.headers.get("authorization") for asked in elsewhere.asked] == [None]
    assert [asked.headers.get("authorization") for asked in server.asked] == [f"Bearer {SECRET}"]
