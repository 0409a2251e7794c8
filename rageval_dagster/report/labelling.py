"""Where people label answers: a page of `rageval serve`, behind its login."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any
from urllib.parse import quote, unquote, urlencode

from markupsafe import Markup, escape
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from rageval_dagster.benchmark.formats.rows import RowError, check_storable
from rageval_dagster.errors import DatabaseError, RagevalError
from rageval_dagster.labels.answers import LabelledAnswers, labelled_answers, labelled_run, newest_runs
from rageval_dagster.labels.estimates import RIGHT, estimate, keep_estimates
from rageval_dagster.labels.files import CANNOT_SAY, label_of, person_of
from rageval_dagster.labels.meaning import what_is_good
from rageval_dagster.labels.queue import draw
from rageval_dagster.report.page import label_page, served_page
from rageval_dagster.report.questions import said_in
from rageval_dagster.report.serving import PERSON, ReportPages, fields_of, html, redirect
from rageval_dagster.storage import labels as label_storage
from rageval_dagster.storage import results as result_storage
from rageval_dagster.storage import scores as score_storage
from rageval_dagster.storage.clients import get_client, list_clients
from rageval_dagster.storage.corpus import document_names
from rageval_dagster.storage.database import Database
from rageval_dagster.storage.evaluations import Evaluation, evaluations_by_id
from rageval_dagster.storage.labels import Label
from rageval_dagster.telling.calibration import scorer, what_comes_of
from rageval_dagster.telling.words import capitalised, number

VALUES = (("1", "Good", "1"), ("0.5", "Partly", "5"), ("0", "Bad", "0"), (CANNOT_SAY, "Cannot say", "?"))
"""What people say of an answer by one key: the value as files have it, how it is called, the key."""


SIZE = 60
"""So many answers wait for a label after a draw, where there are so many."""


class LabelPages:
    """All at one address, whose query says where one is: `client`, then `run` and `metric`, then `answer`.

    A label is stored before the next answer is shown, so that nothing that a person saw as saved can be lost.
    """

    def __init__(self, db: Database, reports: ReportPages) -> None:
        self._db = db
        self._reports = reports

    def routes(self) -> list[Route]:
        return [Route("/label", self._get), Route("/label", self._post, methods=["POST"])]

    def _get(self, request: Request) -> Response:
        return self._answered(request, lambda: self._shown(request))

    async def _post(self, request: Request) -> Response:
        fields = await fields_of(request)
        return await run_in_threadpool(self._answered, request, lambda: self._taken(request, fields))

    def _answered(self, request: Request, answer: Callable[[], Response]) -> Response:
        if not self._reports.is_logged_in(request):
            return redirect(f"login?next={quote(_address(request), safe='')}")
        try:
            check_storable("address", dict(request.query_params))
            return answer()
        except RowError as error:
            return html(served_page("This was not saved", f"The {error.field} {error.reason}."), 422)
        except DatabaseError:
            raise
        except RagevalError as error:
            return html(served_page("This cannot be labelled", str(error)), 404)

    def _shown(self, request: Request, said: str = "", note: str = "", status: int = 200) -> Response:
        """The page of an address; with `said` again, since what was given there was not taken, and its note."""
        asked, person = request.query_params, _person(request)
        if person is None or "rename" in asked:
            return self._page(request, "person", {"said": said, "person": person or ""}, status)
        found: dict[str, Any] = {"person": person, "said": said}
        if "client" not in asked:
            queues = label_storage.queued_metrics(self._db)
            names = [client.client_id for client in list_clients(self._db)]
            rows = [(name, _address(client=name), queues.get(name, [])) for name in names]
            return self._page(request, "clients", {**found, "clients": sorted(rows, key=lambda row: not row[2])})
        found["client"] = asked["client"]
        if "metric" not in asked:
            get_client(self._db, asked["client"])
            return self._page(request, "client", {**found, "runs": self._queues(asked["client"], person)})
        evaluation = _run(self._db, request)
        answers = labelled_answers(self._db, evaluation, asked["metric"])
        found |= {"run": evaluation.id, "metric": asked["metric"], "good": what_is_good(asked["metric"])}
        found["scorer"] = scorer(asked["metric"])
        found["progress"] = progress = _progress(answers, person)
        result_id = asked.get("answer")
        if result_id is None:
            comes = map(capitalised, what_comes_of(estimate(answers))) if answers.labels else ()
            first = _unsaid(answers, answers.drawn, person)
            ahead = None if first is None else _address(request, run=evaluation.id, answer=first)
            return self._page(request, "overview", {**found, "comes": list(comes), "ahead": ahead})
        if result_id not in answers.drawn:
            raise RagevalError("no such answer was drawn for this client, run and metric")
        item = self._item(request, answers, result_id, person)
        before = asked.get("before", "")
        mine = _said_by(answers, before, person) if before in progress["order"] else None
        found["last"] = mine and {
            "to": _address(request, answer=before),
            "said": _name_of(mine),
            "judge": _verdict(answers.judge[before]),
        }
        return self._page(request, "item", {**found, **item, "note": note or item["note"], "values": VALUES}, status)

    def _taken(self, request: Request, fields: dict[str, str]) -> Response:
        asked, person = request.query_params, _person(request)
        if problem := self._reports.problem_of_form(request, fields):
            return html(served_page("This was not saved", problem), 403)
        check_storable("form", fields)
        if "person" in fields or person is None:
            try:
                name = person_of(fields.get("person", ""))
            except RowError as error:
                return self._shown(request, f"Your name {error.reason.split(':')[0]}.", status=422)
            answer = redirect(_address(request, rename=None))
            self._reports.set_cookie(request, answer, PERSON, quote(name))
            return answer
        evaluation = _run(self._db, request)
        if "draw" in fields:
            metric = draw(self._db, evaluation, fields["draw"], SIZE).summary.metric_id
            return redirect(_address(request, metric=metric))
        metric, result_id = asked.get("metric", ""), asked.get("answer", "")
        answers = labelled_answers(self._db, evaluation, metric)
        order = answers.drawn
        if result_id not in order:
            raise RagevalError("no such answer was drawn for this client, run and metric")
        item_id = answers.items[result_id]
        _, result = result_storage.load_results(self._db, evaluation.id, item_id).get(item_id, (None, None))
        if result is None or result.texts_deleted:
            raise RagevalError("the texts of this answer were deleted: it can no longer be labelled")
        note = fields.get("note", "").replace("\r\n", "\n").strip()
        row = {"result_id": result_id, "metric": metric, "value": fields.get("value"), "note": note or None}
        try:
            label = label_of(row, person)
        except RowError as error:
            return self._shown(request, f"Not saved: the {error.field} {error.reason}.", note, 422)
        if label is None or (label.value is None and not note):
            said = "Not saved yet: choose what you say. If you cannot say, write why in the note."
            return self._shown(request, said, note, 422)
        if not label_storage.save_labels(self._db, evaluation.client_id, [label]):
            raise RagevalError("this answer has been deleted: it can no longer be labelled")
        at = order.index(result_id)
        following = [*order[at + 1 :], *order[:at]]
        ahead = _unsaid(answers, following, person)
        changed = [evaluation]
        if ahead is None:  # other runs have these answers, too: once nothing waits, since there may be hundreds
            labelled = label_storage.labelled_evaluations(self._db, evaluation.client_id)
            changed = list(evaluations_by_id(self._db, labelled).values())
        keep_estimates(self._db, changed)
        return redirect(_address(request, answer=ahead, before=None if ahead is None else result_id))

    def _page(self, request: Request, kind: str, values: dict[str, Any], status: int = 200) -> Response:
        def page(form_token: str) -> str:
            return label_page(kind, **values, form_token=form_token, to=lambda **parts: _address(request, **parts))

        return self._reports.with_form(request, page, status)

    def _queues(self, client: str, person: str) -> list[dict[str, Any]]:
        """Of each newest run what people are asked about, and the metrics by which they may be."""
        drawn, found = label_storage.queued_metrics(self._db).get(client, []), []
        for run in newest_runs(self._db, client):
            summaries = score_storage.load_summaries(self._db, run.id)
            metrics = [each.metric_id for each in summaries if each.higher_is_better and each.n_scored]
            asked = {
                name: _progress(labelled_answers(self._db, run, name), person) for name in drawn if name in metrics
            }
            asked = {name: progress for name, progress in asked.items() if progress["order"] or progress["gone"]}
            # Faithfulness first, which the labels command takes where no metric is named.
            others = [name for name in metrics if not name.startswith("retrieval.")]
            others.sort(key=lambda name: (not name.endswith(".faithfulness"), name))
            scored = max((each.n_scored for each in summaries if each.metric_id in others), default=0)
            found.append({"run": run, "asked": asked, "metrics": others, "size": min(SIZE, scored)})
        return found

    def _item(self, request: Request, answers: LabelledAnswers, result_id: str, person: str) -> dict[str, Any]:
        """An answer with all that it is judged by; what the judge and others said only to who has labelled it."""
        evaluation, item_id = answers.evaluation, answers.items[result_id]
        order = [name for name in answers.drawn if name == result_id or name not in answers.deleted]
        known = result_storage.load_results(self._db, evaluation.id, item_id)
        result = known[item_id][1] if item_id in known else None
        mine, at = _said_by(answers, result_id, person), order.index(result_id)
        found: dict[str, Any] = {
            "place": at + 1,
            "back": _address(request, answer=order[at - 1]) if at else None,
            "ahead": _address(request, answer=order[at + 1]) if at + 1 < len(order) else None,
            "mine": None if mine is None else CANNOT_SAY if mine.value is None else f"{mine.value:g}",
            "note": (mine and mine.note) or "",
            "draft": f"{person} {answers.summary.metric_id} {result_id}",
            "result": None if result is None or result.texts_deleted else result,
        }
        if found["result"] is not None and result is not None:
            quotes = [each.quote for each in result.item.evidence if each.quote]
            hits = result.hits[: len(result.contexts)]
            names = document_names(self._db, evaluation.client_id, [hit.document_id for hit in hits])
            found["passages"] = [
                {"document": names[hit.document_id], "page": hit.page, "text": marked(hit.text, quotes)} for hit in hits
            ]
            found["elsewhere"] = [each for each in quotes if not any(_places(hit.text, each) for hit in hits)]
        if mine is not None:
            versions = {answers.summary.metric_id: answers.summary.metric_version}
            outcome = score_storage.load_scores(self._db, evaluation.id, versions)[answers.summary.metric_id][item_id]
            found["judge"] = _verdict(answers.judge[result_id])
            found["reasons"] = said_in(outcome.detail or {})
            found["others"] = [(each, _name_of(each)) for each in answers.labels[result_id] if each.person != person]
        return found


def marked(text: str, quotes: Sequence[str]) -> Markup:
    """The text, escaped, with the quotes in it marked; white space may differ."""
    parts, end = [], 0
    for start, stop in sorted(place for each in quotes for place in _places(text, each)):
        if stop > end:
            first = max(start, end)
            parts += [escape(text[end:first]), Markup("<mark>{}</mark>").format(text[first:stop])]
            end = stop
    return Markup("").join([*parts, escape(text[end:])])


def _places(text: str, quoted: str) -> list[tuple[int, int]]:
    words = r"\s+".join(map(re.escape, quoted.split()))
    return [match.span() for match in re.finditer(words, text)] if words else []


def _progress(answers: LabelledAnswers, person: str) -> dict[str, Any]:
    """What was drawn and is still to be read, how many of it this person labelled, how many each other one did, and how
    many were deleted before this person labelled them."""
    drawn = answers.drawn
    order = [name for name in drawn if name not in answers.deleted or _said_by(answers, name, person) is not None]
    done = Counter(label.person for name in drawn for label in answers.labels.get(name, ()))
    others = sorted((name, count) for name, count in done.items() if name != person)
    return {"order": order, "done": done[person], "others": others, "gone": len(drawn) - len(order)}


def _unsaid(answers: LabelledAnswers, names: Iterable[str], person: str) -> str | None:
    """The first of these answers that this person has not labelled, and still can."""
    left = (name for name in names if name not in answers.deleted and _said_by(answers, name, person) is None)
    return next(left, None)


def _said_by(answers: LabelledAnswers, result_id: str, person: str) -> Label | None:
    return next((each for each in answers.labels.get(result_id, ()) if each.person == person), None)


def _name_of(label: Label) -> str:
    """What a label says, in words: `good`, `bad`, `cannot say`; a value between as a number."""
    said = {1.0: "good", 0.0: "bad", None: CANNOT_SAY}
    return said.get(label.value) or number(label.value)


def _verdict(score: float) -> str:
    """What a judge says: `.13 (bad)`."""
    return f"{number(score)} ({'good' if score >= RIGHT else 'bad'})"


def _person(request: Request) -> str | None:
    """Who labels in this browser; None where nobody said."""
    try:
        return person_of(unquote(request.cookies.get(PERSON, "")))
    except RowError:
        return None


def _run(db: Database, request: Request) -> Evaluation:
    """The run that is asked for; raises RagevalError as `labelled_run`, and where that is no number."""
    run = request.query_params.get("run", "")
    if run and not re.fullmatch("[0-9]{1,9}", run):
        raise RagevalError("a run is named by its number")
    return labelled_run(db, request.query_params.get("client", ""), int(run) if run else None)


def _address(request: Request | None = None, **parts: str | int | None) -> str:
    """The page's address, relative to the server's root: that of the request with other parts; None leaves one out."""
    known = {} if request is None else dict(request.query_params)
    known = {name: value for name, value in known.items() if name != "before"}
    found = {name: value for name, value in {**known, **parts}.items() if value is not None}
    return f"label?{urlencode(found)}" if found else "label"
