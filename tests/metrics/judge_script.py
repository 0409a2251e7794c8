"""A judge whose replies the test writes: what it says of each claim, context and citation, over a real connection."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from metric_samples import TinyEmbedder

from rageval_dagster.llm.client import ChatClient
from rageval_dagster.metrics.interface import MetricOptions
from rageval_dagster.metrics.registry import Tools, all_metrics, compute_scores
from rageval_dagster.records import Outcome, Result
from rageval_dagster.settings import load_settings
from tests.llm.scripted_model import fences
from tests.llm.scripted_server import Received, ScriptedServer

Reply = Callable[[dict[str, Any]], str]


@dataclass
class Script:
    """What the judge finds: the claims of each text, and which claims, statements and contexts hold.

    `holds` are the texts that have a verdict of true; all others have false. What a text is fenced with is not looked
    at. `of_case` decides on a citation by the wording of its case.
    """

    claims: Mapping[str, Sequence[str]] = field(default_factory=dict)
    holds: Sequence[str] = ()
    questions: Sequence[str] = ("One?", "Two?", "Three?")
    evasive: bool = False
    of_case: Callable[[str], bool] | None = None

    def __call__(self, body: dict[str, Any]) -> str:
        user = body["messages"][-1]["content"]
        kind = kind_of(body)
        if kind == "claims":
            [text] = fences(user, "text").values()
            return json.dumps({"claims": list(self.claims[text])})
        if kind == "questions":
            return json.dumps({"evasive": self.evasive, "questions": list(self.questions)})
        name = "useful" if '"useful"' in json.dumps(body["response_format"]) else "supported"
        asked = asked_of(body)
        return verdicts({number: self._holds(text) for number, text in asked.items()}, name)

    def _holds(self, text: str) -> bool:
        return text in self.holds if self.of_case is None else self.of_case(text)


def kind_of(body: dict[str, Any]) -> str:
    return body["response_format"]["json_schema"]["schema"]["title"]


def asked_of(body: dict[str, Any]) -> dict[int, str]:
    """What a request asks for verdicts on, by its numbers."""
    user = body["messages"][-1]["content"]
    cases = re.findall(r"^Case (\d+): (.*?)(?=\n\nCase \d+: |\Z)", user, flags=re.DOTALL | re.MULTILINE)
    if cases:
        return {int(number): case for number, case in cases}
    return fences(user, "claim") or fences(user, "statement") or fences(user, "context")


def verdicts(holds: Mapping[int, Any], name: str = "supported") -> str:
    return json.dumps({"verdicts": [{"number": n, "reason": f"why {n}", name: held} for n, held in holds.items()]})


@dataclass
class Judged:
    """The outcomes of one result by metric id, and what went over the wire."""

    outcomes: Mapping[str, Outcome]
    requests: Sequence[Received]

    def __getitem__(self, metric_id: str) -> Outcome:
        return self.outcomes[metric_id]

    @property
    def asked(self) -> list[dict[int, str]]:
        """What each request asked for verdicts on."""
        return [asked_of(request.body) for request in self.requests if kind_of(request.body) == "verdicts"]


def judge_client(server: ScriptedServer) -> ChatClient:
    values = {"RAGEVAL_JUDGE_MODEL": "judge", "OPENAI_BASE_URL": server.base_url, "RAGEVAL_LLM_MAX_ATTEMPTS": "5"}
    return ChatClient(load_settings(values), "judge", None, "acme")


def judge(result: Result, reply: Reply, *metric_ids: str, **server_options: Any) -> Judged:
    """The outcomes of these metrics for one result, by the judge that replies so."""
    with ScriptedServer(reply, **server_options) as server:
        client = judge_client(server)
        options = MetricOptions(5, TinyEmbedder.version, judge_version=client.version)
        metrics = [metric for metric in all_metrics(options) if metric.id in metric_ids]
        assert len(metrics) == len(metric_ids)
        columns = compute_scores(metrics, [result], Tools(TinyEmbedder(), client))
    return Judged({metric_id: column[0] for metric_id, column in columns.items()}, server.requests)
