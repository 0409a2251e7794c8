"""Verdicts as JUnit XML, which CI services show: a suite an evaluation, a case a metric of the gate."""

from collections.abc import Sequence
from xml.etree import ElementTree

from rageval_dagster.telling.verdicts import NOT_JUDGED, Verdict, movement, newly_turned, sentence
from rageval_dagster.text import showable

_RESULTS = {"regressed": "failure", "unclear": "skipped"}
NOT_EVALUATED = "not evaluated; the command says why"


def junit_xml(found: Sequence[Verdict], failed: Sequence[str] = ()) -> bytes:
    """The report, in UTF-8. It names questions by their ids and has no text of them.

    A metric that regressed is a failure, one that is unclear is skipped. The case `evaluation` fails for a leak, is an
    error where the system failed on too many questions, and skipped where nothing could be compared. A client that
    `failed`, so that it has no evaluation, is an error in a suite of its own.
    """
    root = ElementTree.Element("testsuites", name="rageval gate")
    for verdict in found:
        evaluation, judgement = verdict.judged.evaluation, verdict.judged.judgement
        name = showable(f"{evaluation.client_id} / {evaluation.dataset_name} / {evaluation.system}")
        suite = ElementTree.SubElement(root, "testsuite", name=name)
        said = sentence(verdict)
        whole = (None, said)
        if evaluation.foreign_chunks:
            whole = ("failure", "leak: the system returned words of another client")
        elif verdict.tone == "failed":
            whole = ("error", said)
        elif verdict.scores == "unmeasured":
            whole = ("skipped", NOT_JUDGED)
        elif verdict.scores == "unclear" and (verdict.lost_evidence is not None or verdict.answers_unread):
            whole = ("skipped", said)
        _case(suite, "evaluation", *whole)
        for row in verdict.judged.gated:
            _case(suite, row.metric_id, _RESULTS.get(row.decision), movement(row))
        out = ElementTree.SubElement(suite, "system-out")
        out.text = showable(f"run {evaluation.id}: {said}")
        if judgement.newly_failing:
            out.text += f"\n{newly_turned(judgement)}: {showable(', '.join(judgement.newly_failing))}"
            out.text += f"\nboth answers: rageval runs compare {judgement.baseline_id} {evaluation.id}"
    for client_id in failed:
        _case(ElementTree.SubElement(root, "testsuite", name=showable(client_id)), "evaluation", "error", NOT_EVALUATED)
    for suite in root:
        for kind, child in (
            ("tests", "testcase"),
            ("failures", "failure"),
            ("errors", "error"),
            ("skipped", "skipped"),
        ):
            suite.set(kind, str(len(list(suite.iter(child)))))
    return ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)


def _case(suite: ElementTree.Element, name: str, result: str | None, said: str) -> None:
    case = ElementTree.SubElement(suite, "testcase", classname=suite.get("name", ""), name=name)
    if result is not None:
        ElementTree.SubElement(case, result, message=showable(said))
