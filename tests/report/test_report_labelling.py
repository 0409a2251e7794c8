"""The page where people label: who gets there, what is kept at once, and what is hidden; in a browser, too."""

import re
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from playwright.sync_api import Browser, BrowserContext, Page

from rageval_dagster.labels.answers import labelled_answers, labelled_run
from rageval_dagster.labels.estimates import estimate
from rageval_dagster.labels.queue import draw
from rageval_dagster.records import Answer, Evidence, Hit, Item, Outcome
from rageval_dagster.storage import results as result_storage
from rageval_dagster.storage.clients import ensure_client
from rageval_dagster.storage.database import Database
from rageval_dagster.storage.forgetting import delete_rows, rows_of
from rageval_dagster.storage.labels import Label, load_corrected, load_labels, load_queue, save_labels, save_queue
from rageval_dagster.storage.retention import delete_texts
from rageval_dagster.storage.scores import save_scores, save_summaries
from rageval_dagster.storage.types import utc_now
from rageval_dagster.telling.words import number
from tests.pipeline.small_project import Project
from tests.report.axe import serious_violations
from tests.report.served import TOKEN, Served, form_token, serving
from tests.storage.history_builder import finish, make_dataset, open_run, result_of, retrieval_of, score_all, summary

METRIC = "judge.faithfulness"
SCRIPT = "<script>document.title='ran'</script>"
REASON = "nothing supports the tower's height"


def evaluated(db: Database, client: str, questions: int = 12, trigger: str = "first") -> int:
    """A run of a client, whose judge likes two answers in three; its number."""
    items = [
        Item(
            question=f"How high is tower {number} of {client}? {SCRIPT}",
            answers=(f"Tower {number} is {number} m high.",),
            evidence=(Evidence(f"doc-{number}", None, f"tower {number}  rises {number} m"),),
        )
        for number in range(questions)
    ]
    evaluation = open_run(db, make_dataset(db, client, items), trigger)
    retrievals = []
    for at, item in enumerate(items):
        words = f"Of the towers, tower {at} rises\n{at} m above {client}. {SCRIPT}", "Nobody may climb it."
        hits = [Hit(f"{at}-{rank}", f"doc-{at}", rank, 0.5, text) for rank, text in enumerate(words, start=1)]
        retrievals.append(replace(retrieval_of(item), hits=hits))
    result_storage.save_retrievals(db, evaluation.id, [(each, None) for each in retrievals])
    results = [
        replace(result_of(each, f"{number} metres, it is said. {SCRIPT}"), answer=Answer(f"{number} metres. {SCRIPT}"))
        for number, each in enumerate(retrievals)
    ]
    result_storage.save_results(db, evaluation.id, [(each, None) for each in results])
    outcomes = [Outcome.scored(0.87 if number % 3 else 0.13, {"reasoning": REASON}) for number in range(questions)]
    score_all(db, evaluation, results, METRIC, outcomes)
    finish(db, evaluation, {METRIC: 0.62})
    save_summaries(db, evaluation.id, [summary(METRIC, 0.62, questions)])
    return evaluation.id


def labels_of(db: Database, client: str = "acme") -> list[Label]:
    labels = labelled_answers(db, labelled_run(db, client), METRIC).labels
    return [each for name in labels for each in labels[name]]


@pytest.fixture
def served(db: Database, tmp_path: Path) -> Iterator[Served]:
    """`acme` and `globex` have answers that were drawn, `new` has none."""
    for client in ("acme", "globex"):
        evaluated(db, client)
        draw(db, labelled_run(db, client), METRIC, size=6)
    ensure_client(db, "new")
    with serving(db, tmp_path) as found:
        yield found


def named(served: Served, person: str) -> httpx.Client:
    """Somebody who is logged in and said who it is."""
    client = served.logged_in()
    assert client.post("/label", data={"form": form_token(client.get("/label")), "person": person}).status_code == 303
    return client


def address(db: Database, client: str = "acme", place: int = 0) -> str:
    run = labelled_run(db, client)
    return (
        f"/label?client={client}&run={run.id}&metric={METRIC}&answer={labelled_answers(db, run, METRIC).drawn[place]}"
    )


def give(client: httpx.Client, at: str, value: str, note: str = "") -> httpx.Response:
    return client.post(at, data={"form": form_token(client.get(at)), "value": value, "note": note})


def test_nobody_labels_before_the_login_which_leads_back_to_the_very_answer(served: Served, db: Database) -> None:
    at, client = address(db), served.browser()
    for answer in (client.get(at), client.post(at, data={"value": "1"})):
        assert (answer.status_code, answer.text) == (303, "")
    login = client.get(at, follow_redirects=True)
    back = client.post(str(login.url), data={"token": TOKEN, "form": form_token(login)})
    asked, led = urlsplit(at), urlsplit(back.headers["location"])
    assert (f"/{led.path}", parse_qs(led.query)) == (asked.path, parse_qs(asked.query))
    assert labels_of(db) == []


def test_a_label_needs_the_form_of_this_server(served: Served, db: Database) -> None:
    client, at = named(served, "ann"), address(db)
    form = form_token(client.get(at))
    for data, headers in (
        ({"value": "1"}, {}),
        ({"value": "1", "form": "made up"}, {}),
        ({"value": "1", "form": form}, {"Origin": "https://evil.example.com"}),
        ({"draw": METRIC}, {}),
        ({"person": "eve"}, {}),
    ):
        assert client.post(at, data=data, headers=headers).status_code == 403
    assert labels_of(db) == []
    assert "ann" in client.get(at).text


def test_who_labels_is_asked_once_and_held_to_what_files_are(served: Served, db: Database) -> None:
    client = served.logged_in()
    page = client.get(address(db))
    assert "Who labels?" in page.text
    for person, said in (("", "is missing"), ("x" * 101, "longer than 100"), ("a\x1b[31mnn", "control character")):
        answer = client.post(address(db), data={"form": form_token(page), "person": person})
        assert (answer.status_code, said in answer.text) == (422, True)
    named_now = client.post(address(db), data={"form": form_token(page), "person": " Zoë, Ann "})
    shown = client.get(f"/{named_now.headers['location']}")
    assert "How high is tower" in shown.text
    assert give(client, address(db), "0").status_code == 303
    assert [(each.person, each.value) for each in labels_of(db)] == [("Zoë, Ann", 0.0)]
    client.post("/logout", data={"form": form_token(client.get("/logout"))})
    assert "rageval_person" not in client.cookies


def test_a_label_is_kept_at_once_and_each_person_has_an_own_one(served: Served, db: Database) -> None:
    ann, bob, at = named(served, "ann"), named(served, "bob"), address(db)
    assert give(ann, at, "1", "as the passage says\r\nword for word").headers["location"] != at
    assert [(each.value, each.note) for each in labels_of(db)] == [(1.0, "as the passage says\nword for word")]
    assert give(bob, at, "0").status_code == 303
    give(ann, at, "0.5")
    assert [(each.person, each.value) for each in labels_of(db)] == [("ann", 0.5), ("bob", 0.0)]
    assert "1 of 6, 1 by bob" in ann.get(at).text
    assert "bob: bad" in ann.get(at).text
    for value, note in (("", ""), ("2", ""), ("nan", ""), ("good", ""), ("1", "\0")):
        assert give(ann, at, value, note).status_code == 422
    assert ann.get(at).text.count('aria-pressed="true"') == 1


def test_who_cannot_say_says_why(served: Served, db: Database) -> None:
    client, at = named(served, "ann"), address(db)
    answer = give(client, at, "cannot say", "  ")
    assert (answer.status_code, "write why in the note" in answer.text) == (422, True)
    assert labels_of(db) == []
    assert give(client, at, "cannot say", "the passage is cut off").status_code == 303
    assert [(each.value, each.note) for each in labels_of(db)] == [(None, "the passage is cut off")]


def test_what_the_judge_gave_is_hidden_until_the_label_is_given(served: Served, db: Database) -> None:
    ann, bob, at = named(served, "ann"), named(served, "bob"), address(db)
    give(bob, at, "0", "bob's reason")
    for page in (ann.get(at).text, ann.get(f"{at}&before={at[-64:]}").text):
        assert not [word for word in (".87", ".13", REASON, "bob's reason", "bob: bad") if word in page]
    after = give(ann, at, "1")
    told = ann.get(f"/{after.headers['location']}").text
    assert re.search(r"Saved: good. The judge gave \.(87 \(good|13 \(bad)\)\.", told)
    assert REASON.replace("'", "&#39;") not in told
    assert REASON.replace("'", "&#39;") in ann.get(at).text


def test_texts_are_shown_as_text_and_the_evidence_is_marked(served: Served, db: Database) -> None:
    page = named(served, "ann").get(address(db)).text
    assert page.count("<script>") == 1  # the page's own
    assert page.count("&lt;script&gt;") == 3  # in question, answer and passage
    assert re.search(r"<mark>tower (\d+) rises\n\1 m</mark> above acme", page)
    assert "The passages support all that the answer says." in page


def test_no_answer_of_another_client_is_shown_or_labelled(served: Served, db: Database) -> None:
    client, own, other = named(served, "ann"), address(db), address(db, "globex")
    form = form_token(client.get(own))
    answers = labelled_answers(db, labelled_run(db, "acme"), METRIC)
    for at in (
        *(f"{own[:-64]}{name}" for name in (other[-64:], "0" * 64, "x", min(answers.judge.keys() - answers.drawn))),
        own.replace("client=acme", "client=globex"),
        own.replace("client=acme", "client=nobody"),
        own.replace(METRIC, "judge.overall"),
        own.replace("run=1", "run=99"),
        own.replace("run=1", "run=2"),
        own.replace("run=1", "run=x"),
        "/label?client=nobody",
    ):
        for answer in (client.get(at), client.post(at, data={"form": form, "value": "1"})):
            assert (answer.status_code, "tower" in answer.text) == (404, False), at
    assert labels_of(db) == labels_of(db, "globex") == []


def test_answers_are_drawn_from_the_page(served: Served, db: Database) -> None:
    evaluated(db, "new")
    client = named(served, "ann")
    assert "no answers drawn yet" in client.get("/label").text
    page = client.get("/label?client=new")
    assert "Draw 12 at random:" in page.text
    answer = client.post("/label?client=new&run=3", data={"form": form_token(page), "draw": METRIC})
    assert "0 of 12 labelled" in client.get(f"/{answer.headers['location']}").text
    assert len(labelled_answers(db, labelled_run(db, "new"), METRIC).waiting) == 12
    assert "no answers drawn yet" not in client.get("/label").text


def test_a_client_that_is_being_forgotten_gets_no_label_and_no_queue(served: Served, db: Database) -> None:
    client, at = named(served, "ann"), address(db)
    form, answers = form_token(client.get(at)), labelled_answers(db, labelled_run(db, "acme"), METRIC)
    delete_rows(db, "acme")
    assert client.post(at, data={"form": form, "value": "1"}).status_code == 404
    assert client.post("/label?client=acme", data={"form": form, "draw": METRIC}).status_code == 404
    # Nor from those who had read everything before.
    name = answers.drawn[0]
    assert save_labels(db, "acme", [Label(name, METRIC, "ann", 1.0)]) == 0
    save_queue(db, "acme", METRIC, answers.queue)
    assert (load_labels(db, "acme", METRIC, [name]), load_queue(db, "acme", METRIC, [name])) == ({}, {})


def test_deleted_texts_are_told(served: Served, db: Database) -> None:
    client, at = named(served, "ann"), address(db)
    form = form_token(client.get(at))
    delete_texts(db, "acme", utc_now())
    assert "The texts of this answer were deleted" in client.get(at).text
    # Nor does it take a label from a page that was opened before.
    assert client.post(at, data={"form": form, "value": "1", "note": "it quotes the deed"}).status_code == 404
    assert labels_of(db) == []


def test_a_queue_ends_though_some_of_its_answers_were_deleted(served: Served, db: Database) -> None:
    client, addresses = named(served, "ann"), [address(db, place=place) for place in range(6)]
    for at in addresses[:2]:
        give(client, at, "1")
    delete_texts(db, "acme", utc_now())  # what was labelled stays
    page = client.get(f"/label?client=acme&metric={METRIC}").text
    assert "2 of 2: done" in page
    assert "4 answers more were drawn, but have been deleted." in page
    assert "2 of 2, 4 deleted" in client.get("/label?client=acme").text
    delete_texts(db, "acme", utc_now(), keep_baselines=False)
    bob = named(served, "bob")
    assert "All 6 that were drawn were deleted since: done" in bob.get(f"/label?client=acme&metric={METRIC}").text


def test_by_a_metric_without_a_judge_none_is_named(served: Served, db: Database) -> None:
    metric, run = "overlap.faithfulness", labelled_run(db, "acme")
    ids = [row.result_id or "" for row in result_storage.run_items(db, run.id)]
    save_scores(db, run.id, [(each, metric, "1", Outcome.scored(0.87)) for each in ids])
    save_summaries(db, run.id, [summary(metric, 0.87, len(ids))])
    draw(db, run, metric, size=6)
    client = named(served, "ann")
    at = f"/label?client=acme&run={run.id}&metric={metric}&answer={labelled_answers(db, run, metric).drawn[0]}"
    assert "What the metric gave is shown once you have labelled the answer." in client.get(at).text
    after = client.get(f"/{give(client, at, '1').headers['location']}").text
    assert "Saved: good. The metric gave .87 (good)." in after
    overview = client.get(f"/label?client=acme&run={run.id}&metric={metric}").text
    assert f"label 4 more answers: rageval labels queue --client acme --metric {metric}" in overview
    assert "judge" not in overview.partition("<main>")[2].partition("</main>")[0]


def test_who_has_labelled_all_sees_what_comes_of_it(served: Served, db: Database) -> None:
    client = named(served, "ann")
    for place in range(5):
        give(client, address(db, place=place), str(place % 2))
    answer = give(client, address(db, place=5), "1")
    page = client.get(f"/{answer.headers['location']}").text
    assert "6 of 6: done" in page
    found = estimate(labelled_answers(db, labelled_run(db, "acme"), METRIC)).corrected
    assert f"Corrected mean     {found.mean:.2f}".replace(" 0.", " .") in page
    assert "Judge and people agree on" in page


def test_once_all_is_labelled_every_run_with_these_answers_has_what_comes_of_it(served: Served, db: Database) -> None:
    first, second = labelled_run(db, "acme").id, evaluated(db, "acme", trigger="second")
    client = named(served, "ann")
    for place in range(6):
        assert load_corrected(db, METRIC, [first]) == {}
        give(client, address(db, place=place), str(place % 2))
    one, other = (load_corrected(db, METRIC, [run])[run] for run in (first, second))
    assert one == other
    assert one.labels == 6


# --- in a browser -----------------------------------------------------------------------------------------------------


class Command:
    """`rageval serve` as a process of its own, at the same address whenever it is started again."""

    def __init__(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self.start()

    def start(self) -> None:
        arguments = [sys.executable, "-m", "rageval_dagster", "serve", "--port", str(self.port)]
        self._process = subprocess.Popen(arguments, stderr=subprocess.PIPE, text=True)
        assert self._process.stderr is not None
        assert any("The reports: " in line for line in self._process.stderr)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()


@pytest.fixture
def command(project: Project, monkeypatch: pytest.MonkeyPatch) -> Iterator[Command]:
    """It serves 90 answers of `acme`, 60 of which were drawn."""
    monkeypatch.setenv("RAGEVAL_SERVE_TOKEN", TOKEN)
    db = project.database()
    evaluated(db, "acme", 90)
    draw(db, labelled_run(db, "acme"), METRIC, size=60)
    running = Command()
    yield running
    running.kill()


@pytest.fixture
def new_page(browser: Browser) -> Iterator[Callable[..., Page]]:
    """Opens pages that share nothing, each as another person's browser; a slow machine is waited for."""
    contexts: list[BrowserContext] = []

    def opened(width: int = 1280, **context: Any) -> Page:
        contexts.append(browser.new_context(viewport={"width": width, "height": 800}, **context))
        contexts[-1].set_default_timeout(300_000)
        return contexts[-1].new_page()

    yield opened
    for each in contexts:
        each.close()


def enter(page: Page, port: int, person: str) -> None:
    """Logs in, says who it is, and goes to the first answer that this person has not labelled."""
    page.goto(f"http://127.0.0.1:{port}/label?client=acme&metric={METRIC}")
    page.get_by_label("Token").fill(TOKEN)
    page.keyboard.press("Enter")
    page.get_by_label("Your name").fill(person)
    page.keyboard.press("Enter")
    page.locator("a.button").click()
    page.get_by_label("Note").wait_for()


def press(page: Page, key: str) -> None:
    """A key that leads on."""
    before = page.url
    page.locator("body").press(key)
    page.wait_for_url(lambda url: url != before)


def key_for(page: Page, bad: int) -> str:
    """What a person says of the answer that is shown: every so many is bad."""
    found = re.search(r"tower (\d+)", page.locator("h2").inner_text())
    assert found is not None
    return "1" if int(found[1]) % bad else "0"


@pytest.mark.slow
@pytest.mark.xdist_group("browser")
def test_sixty_answers_are_labelled_by_keys_by_two_people_and_a_kill_loses_none(
    command: Command, project: Project, new_page: Callable[..., Page]
) -> None:
    db = project.database()
    page, other = new_page(), new_page(width=390)
    enter(page, command.port, "ann")
    for _ in range(30):
        press(page, key_for(page, 4))
    page.get_by_label("Note").fill("what I think of this one")
    before, kept = page.url, labels_of(db)
    assert len(kept) == 30
    command.kill()
    command.start()
    page.reload()
    page.get_by_label("Token").fill(TOKEN)
    page.keyboard.press("Enter")
    page.get_by_label("Note").wait_for()
    assert parse_qs(urlsplit(page.url).query)["answer"] == parse_qs(urlsplit(before).query)["answer"]
    assert page.get_by_label("Note").input_value() == "what I think of this one"
    assert page.locator(".progress a").inner_text() == "30 of 60"
    assert labels_of(db) == kept
    enter(other, command.port, "bob")
    assert other.evaluate("document.documentElement.scrollWidth") == 390
    for _ in range(20):  # the same answers, and while ann goes on
        press(other, key_for(other, 3))
        press(page, key_for(page, 4))
    for _ in range(10):
        press(page, key_for(page, 4))
    assert page.locator(".answer").inner_text() == "60 of 60: done"
    assert "20 by bob" in page.locator(".lead").inner_text()
    labels = labels_of(db)
    assert [sum(each.person == name for each in labels) for name in ("ann", "bob")] == [60, 20]
    assert "what I think of this one" in [each.note for each in labels]
    found = estimate(labelled_answers(db, labelled_run(db, "acme"), METRIC))
    assert (found.corrected.labels, found.people) == (60, ("ann", "bob"))
    said = page.locator("details").inner_text()
    assert "two people agree with kappa" in said.lower()
    shown = subprocess.run(
        [sys.executable, "-m", "rageval_dagster", "labels", "show", "--client", "acme"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    assert number(found.corrected.mean) in said
    assert f"corrected mean     {number(found.corrected.mean)}" in shown
    forget = [sys.executable, "-m", "rageval_dagster", "forget", "--client", "acme", "--yes"]
    assert "acme: forgotten" in subprocess.run(forget, check=True, capture_output=True, text=True).stdout
    other.locator("body").press("1")
    other.get_by_text("This cannot be labelled").wait_for()
    assert rows_of(db, "acme") == {}


@pytest.mark.slow
@pytest.mark.xdist_group("browser")
@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_keys_move_and_explain_and_nothing_is_wider_than_the_page(
    served: Served, db: Database, new_page: Callable[..., Page], width: int, scheme: str
) -> None:
    page = new_page(width, color_scheme=scheme)
    wrong: list[str] = []
    page.on("console", lambda message: wrong.append(message.text))
    page.on("pageerror", lambda error: wrong.append(str(error)))
    enter(page, served.port, "ann")
    first = page.url
    press(page, "j")
    press(page, "k")
    assert page.url == first
    page.locator("body").press("?")
    note = page.get_by_label("Note")
    note.press_sequentially("10 of 5?")  # no keys here
    assert page.url == first
    page.reload()
    assert note.input_value() == "10 of 5?"
    page.locator("body").press("?")
    page.get_by_role("status").wait_for()
    assert [(each.value, each.note) for each in labels_of(db)] == [(None, "10 of 5?")]
    press(page, "k")
    assert "The judge gave" in page.locator(".judged").inner_text()
    assert serious_violations(page) == []
    for at in (
        "/label",
        "/label?client=acme",
        f"/label?client=acme&metric={METRIC}",
        first.removeprefix(served.origin),
    ):
        page.goto(f"{served.origin}{at}")
        assert page.evaluate("document.documentElement.scrollWidth") == width, at
        assert serious_violations(page) == []
    assert page.title() == "acme: label answers"
    assert wrong == []
