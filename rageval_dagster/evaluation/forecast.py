"""What an evaluation would do, without doing it: questions asked, and at the most which model calls, and their cost."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING, Any

from rageval_dagster.benchmark.due import BenchmarkSpec, Renewal, current_dataset, planned_size, renewal_due, specs_of
from rageval_dagster.benchmark.renewal import SAMPLE_SHARE, SPARE
from rageval_dagster.evaluation.request import chosen_datasets, make_request
from rageval_dagster.llm.budgets import cost_of
from rageval_dagster.llm.contexts import estimated_tokens
from rageval_dagster.llm.endpoints import Role, endpoint_of
from rageval_dagster.llm.prompts import load_prompt
from rageval_dagster.settings import BUILT_IN_SYSTEMS, Settings
from rageval_dagster.storage.benchmark import current_datasets
from rageval_dagster.storage.caches import model_usage
from rageval_dagster.storage.clients import list_clients
from rageval_dagster.storage.database import Database
from rageval_dagster.storage.labels import MOST_CHECKED, labelled_counts
from rageval_dagster.storage.scores import TIMES

if TYPE_CHECKING:
    from rageval_dagster.metrics.interface import Metric

SINGLE_CALLS, MULTI_HOP_CALLS, UNANSWERABLE_CALLS = 3, 5, 2
"""What one draft takes: the model writes it, and critics judge it."""

GUESS = "a guess"
"""Where tokens and time are from before a client's first calls."""
LATENCY_S = 2.0
CHUNK_TOKENS = 220
"""Of 800 characters of English, as `rageval ingest` cuts them."""
MATERIAL_TOKENS = 100
"""Question, answer and reference together."""
REPLY_TOKENS = {"generator": 120, "answer": 100, "judge": 250}
_PROMPTS = {"generator": "generate", "answer": "answer", "judge": "claims_support"}
"""A prompt of each role; its others are about as long."""


@dataclass(frozen=True)
class Calls:
    """Model calls: at the most, and if no draft is rejected and no answer fails the checks."""

    most: int = 0
    if_all_goes_well: int = 0


def forecast(
    db: Database,
    settings: Settings,
    client_id: str,
    probe: str,
    dataset_ids: Sequence[int] = (),
    systems: Sequence[str] = (),
    k: int = 0,
    sample_size: int = 0,
    strategy: str = "",
) -> dict[str, Any]:
    """The upper bound of a run's work for one client; nothing is scanned or asked.

    `probe` is the document store's present one: where it moved since the last scan, the documents may have changed.
    What is stored or cached already is not looked up, and counted.
    """
    spec = BenchmarkSpec.from_settings(settings, size=sample_size, strategy=strategy, automatic=not dataset_ids)
    request = make_request(settings, client_id, "forecast", k or None, systems, dataset_ids)
    built_in = [name for name in request.systems if name in BUILT_IN_SYSTEMS]
    chunks = _chunk_count(db, client_id, probe)
    renewals = {
        each.name: renewal
        for each in specs_of(db, client_id, spec)
        if (renewal := _renewal(db, client_id, each, is_scanned=chunks is not None)) is not None
    }
    if renewals:
        datasets = [dataset for dataset in current_datasets(db, client_id) if dataset.name not in renewals]
    else:
        datasets = chosen_datasets(db, request)
    sizes = [renewal.size for renewal in renewals.values()]
    questions = sum(dataset.qa_count for dataset in datasets) + sum(sizes)
    answers = questions * len(built_in)
    own = [name for name in request.systems if name not in BUILT_IN_SYSTEMS]
    again = questions * (TIMES - 1) * len(set(own) - settings.recorded)
    judge = judge_calls(settings, request.k)
    judged = questions * len(request.systems) * judge
    checked = (
        len(request.systems) * max(len(datasets) + len(renewals), 1) * check_calls(db, settings, client_id, request.k)
    )
    calls: dict[Role, Calls] = {
        "generator": generator_calls(settings, sizes, chunks),
        "answer": Calls(answers * 2 if settings.verification_enabled else answers, answers),
        "judge": Calls(judged + again * judge + checked, judged),
    }
    work = [each for role in calls if (each := work_of(db, settings, client_id, role, calls[role], request.k))]
    by_role = {each["role"]: each["calls"] for each in work}
    costs = [each["cost_usd"] for each in work if each["cost_usd"] is not None]
    return {
        "client": client_id,
        "new dataset": "; ".join(dict.fromkeys(each.reason for each in renewals.values())) or "no",
        "questions": questions,
        "systems": ", ".join(request.systems),
        "retrievals": questions * len(built_in),
        "system calls": questions * len(own),
        "asked again": again,
        **{f"{role} calls": by_role.get(role, 0) for role in calls},
        "tokens": sum(each["tokens"] for each in work),
        "cost_usd": sum(costs) if len(costs) == len(work) else None,
        "seconds": sum(each["seconds"] for each in work),
        "models": work,
    }


def _renewal(db: Database, client_id: str, spec: BenchmarkSpec, is_scanned: bool) -> Renewal | None:
    """The renewal of a dataset that is due, or may be once the documents are scanned."""
    renewal = renewal_due(db, client_id, spec)
    current = current_dataset(db, client_id, spec)
    if renewal is None and spec.automatic and not is_scanned and current is not None:
        return Renewal("perhaps: the documents changed since the last scan", "repair", planned_size(current))
    return renewal


def generator_calls(settings: Settings, sizes: Sequence[int], chunk_count: int | None) -> Calls:
    """What a model is asked for new datasets of so many questions; `chunk_count` is None where it is not known."""
    from rageval_dagster.benchmark.by_model import DRAFTS
    from rageval_dagster.benchmark.mix import MOST_TIMES

    multi_hop, unanswerable = settings.multi_hop_share, settings.unanswerable_share
    usual = SINGLE_CALLS + (MULTI_HOP_CALLS - SINGLE_CALLS) * multi_hop
    most = SINGLE_CALLS + (MULTI_HOP_CALLS - SINGLE_CALLS) * min(MOST_TIMES * multi_hop, 1.0)
    usual -= (SINGLE_CALLS - UNANSWERABLE_CALLS) * unanswerable
    drawn = [min(size * SAMPLE_SHARE, size * SAMPLE_SHARE if chunk_count is None else chunk_count) for size in sizes]
    well = sum(min(chunks, size * SPARE + 1) for chunks, size in zip(drawn, sizes, strict=True))
    return Calls(ceil(sum(drawn) * DRAFTS * most), ceil(well * usual))


def judge_calls(settings: Settings, k: int) -> int:
    """What the judge is asked about one result of usual size by all the metrics that the client runs."""
    from rageval_dagster.metrics.registry import chosen_metrics, options_of

    return settings.judge_repeats * judge_calls_of(chosen_metrics(settings, options_of(settings, k)))


def check_calls(db: Database, settings: Settings, client_id: str, k: int) -> int:
    """What the judge is asked once more about labelled answers of earlier runs, to see whether it has changed."""
    from rageval_dagster.metrics.registry import chosen_metrics, options_of

    labelled = labelled_counts(db, client_id)
    if not labelled:
        return 0
    metrics = [each for each in chosen_metrics(settings, options_of(settings, k)) if each.id in labelled]
    asked = sum(min(labelled[each.id], MOST_CHECKED) * judge_calls_of([each]) for each in metrics)
    return settings.judge_repeats * asked


def judge_calls_of(metrics: "Sequence[Metric]") -> int:
    """What the judge is asked about one result of usual size by these metrics."""
    judged = [metric for metric in metrics if metric.judged is not None]
    return len(frozenset[str]().union(*(metric.asks or {metric.id} for metric in judged)))


def work_of(
    db: Database, settings: Settings, client_id: str, role: Role, calls: Calls, k: int, sent: float | None = None
) -> dict[str, Any] | None:
    """What the calls of a role come to, by its earlier ones for this client where there are any; None without any.

    `sent` is how many tokens a request has, on average, where that is known. Tokens are in and out together; the cost
    is None where the model has no price.
    """
    endpoint = endpoint_of(settings, role)
    if endpoint is None or not calls.most:
        return None
    past = model_usage(db, client_id, role=role)
    answered = past.sent - past.errors
    if answered > 0:
        usual, received, latency = (
            total / answered for total in (past.prompt_tokens, past.completion_tokens, past.latency_s)
        )
    else:
        usual, received, latency = *_estimated_tokens(settings, role, k), LATENCY_S
    tokens_in, tokens_out = round(calls.most * (usual if sent is None else sent)), round(calls.most * received)
    return {
        "role": role,
        "model": endpoint.model,
        "calls": calls.most,
        # With no draft rejected and no answer improved.
        "calls_if_all_goes_well": calls.if_all_goes_well,
        "tokens": tokens_in + tokens_out,
        "cost_usd": cost_of(settings, endpoint.model, tokens_in, tokens_out),
        "seconds": round(calls.most * latency / settings.llm_concurrency, 1),
        "estimated_by": f"{answered} earlier calls" if answered > 0 else GUESS,
    }


def _estimated_tokens(settings: Settings, role: Role, k: int) -> tuple[int, int]:
    """The tokens of a call, in and out, of which nothing is known but the prompt and the number of contexts."""
    prompt = load_prompt(_PROMPTS[role], settings.prompts_dir)
    words = sum(estimated_tokens(section) for section in prompt.sections.values())
    contexts = {
        "generator": CHUNK_TOKENS,
        "answer": min(k * CHUNK_TOKENS, settings.answer_context_tokens),
        "judge": k * CHUNK_TOKENS,
    }
    return words + contexts[role] + MATERIAL_TOKENS, REPLY_TOKENS[role]


def _chunk_count(db: Database, client_id: str, probe: str) -> int | None:
    """The chunks of a client; None where they may have changed since the last scan, or were never scanned."""
    client = next((known for known in list_clients(db) if known.client_id == client_id), None)
    if client is None or client.probe != probe or client.change_seq > client.scanned_seq:
        return None
    return client.chunk_count
