"""What models may cost, and whether that is spent: a run's limit, a client's day, the day of all clients together."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from rageval_dagster.settings import Settings
from rageval_dagster.storage.caches import LlmCall, model_usage
from rageval_dagster.storage.database import Database

LOOKED_AT_EVERY_S = 5.0
"""How often is asked what others (runs of the same client, other clients) spent meanwhile."""


def cost_of(settings: Settings, model: str, prompt_tokens: int, completion_tokens: int) -> float | None:
    """US dollars; None where [prices] in rageval.toml does not know the model."""
    price = settings.prices.get(model)
    if price is None:
        return None
    return (prompt_tokens * price.into + completion_tokens * price.out) / 1_000_000


@dataclass
class _Purse:
    """One limit, and what was spent of it: when last looked, and by this process since."""

    name: str
    cost_usd: float | None
    tokens: int | None
    whose: dict[str, str]
    by_day: bool
    spent_usd: float = 0.0
    spent_tokens: int = 0

    def look(self, db: Database) -> None:
        midnight = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
        before = model_usage(db, since=midnight if self.by_day else None, **self.whose)
        self.spent_usd, self.spent_tokens = before.cost_usd, before.tokens

    def spent(self) -> str | None:
        """What was reached, in words; None while there is something left."""
        if self.cost_usd is not None and self.spent_usd >= self.cost_usd:
            return f"{self.name} of {self.cost_usd:g} USD is spent ({self.spent_usd:.4f} USD)"
        if self.tokens is not None and self.spent_tokens >= self.tokens:
            return f"{self.name} of {self.tokens} tokens is spent ({self.spent_tokens})"
        return None


class Budgets:
    """All limits that hold for one client's run. What is in flight when one is reached still comes and is paid for."""

    def __init__(self, settings: Settings, db: Database | None, client_id: str, run_id: str | None) -> None:
        run = {"client_id": client_id} | ({} if run_id is None else {"run_id": run_id})
        day, fleet = settings.budget, settings.fleet.budget
        purses = [
            _Purse(
                "the limit of this run (RAGEVAL_LLM_MAX_COST_USD, RAGEVAL_LLM_MAX_TOKENS)",
                settings.llm_max_cost_usd,
                settings.llm_max_tokens,
                run,
                by_day=False,
            ),
            _Purse(f"today's budget of client {client_id!r}", day.cost_usd, day.tokens, {"client_id": client_id}, True),
            _Purse("today's budget of all clients ([fleet])", fleet.cost_usd, fleet.tokens, {}, True),
        ]
        self._purses = [purse for purse in purses if purse.cost_usd is not None or purse.tokens is not None]
        # Where no run is named, what was spent before is none of this one's.
        self._counted = [purse for purse in self._purses if purse.by_day or run_id is not None]
        self._db = db
        self._looked = float("-inf")

    def look(self, unwritten: Sequence[LlmCall]) -> None:
        """Asks the database what was spent; until the next look, what this process spends counts beside it.

        `unwritten` are its calls that may not stand in the database yet.
        """
        if self._db is None:
            return
        for purse in self._counted:
            purse.look(self._db)
            purse.spent_usd += sum(call.cost_usd or 0.0 for call in unwritten)
            purse.spent_tokens += sum(call.prompt_tokens + call.completion_tokens for call in unwritten)
        self._looked = time.monotonic()

    @property
    def is_stale(self) -> bool:
        """Whether others may have spent something since."""
        return self._db is not None and bool(self._counted) and time.monotonic() - self._looked > LOOKED_AT_EVERY_S

    def spend(self, cost_usd: float | None, tokens: int) -> None:
        for purse in self._purses:
            purse.spent_usd += cost_usd or 0.0
            purse.spent_tokens += tokens

    def reached(self) -> str | None:
        """What limit is reached, in words; None while there is something left."""
        return next(filter(None, (purse.spent() for purse in self._purses)), None)
