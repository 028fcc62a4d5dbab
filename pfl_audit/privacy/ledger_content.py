"""Content of a budget ledger: runs with their Rényi divergences and units, and what these have spent."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from pfl_audit.privacy.guarantee import Delta, Epsilon, Positive, Rate, Rounds
from pfl_audit.privacy.pld import Kind
from pfl_audit.privacy.renyi import ORDERS
from pfl_audit.privacy.renyi_filter import RunCost, best_order, filter_epsilon
from pfl_audit.privacy.units import PrivacyUnit
from pfl_audit.provider_identity import provider_identity

Tag = Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")]
Order = Annotated[float, Field(gt=1, allow_inf_nan=False)]


class LedgerRun(BaseModel):
    """A run, as it was reserved; divergences are those of all its rounds at the orders of the ledger."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    began: Annotated[str, Field(max_length=40)]
    rounds: Rounds
    noise_multiplier: Positive
    client_rate: Rate
    provider_rate: Rate
    kind: Kind = "poisson"
    epsilon: Epsilon
    divergences: tuple[Epsilon, ...]
    providers: tuple[Tag, ...]


class LedgerContent(BaseModel):
    """Content of the file; ``runs`` are in the order in which they were reserved."""

    model_config = ConfigDict(extra="forbid")

    kind: Literal["pfl-audit budget ledger"] = "pfl-audit budget ledger"
    version: Literal[1] = 1
    unit: PrivacyUnit = "provider"
    delta: Delta
    order: Order
    cap: Positive | None
    orders: tuple[Order, ...]
    key: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    runs: dict[str, LedgerRun]

    @model_validator(mode="after")
    def _complete(self) -> LedgerContent:
        if self.order not in self.orders:
            raise ValueError("the order is not one of its orders")
        if any(len(run.divergences) != len(self.orders) for run in self.runs.values()):
            raise ValueError("a run lacks divergences")
        return self

    def epsilon(self, runs: Sequence[LedgerRun]) -> float:
        """Epsilon of runs together; one run alone is not chosen by the results of another."""
        at = self.orders.index(self.order)
        total = filter_epsilon(sum(run.divergences[at] for run in runs), self.order, self.delta)
        return min(total, runs[0].epsilon) if len(runs) == 1 else total

    def tags(self, names: Iterable[str]) -> set[str]:
        """Keyed hashes of the identities of units."""
        key, plain = bytes.fromhex(self.key), {provider_identity(name).encode() for name in names}
        return {hmac.new(key, name, hashlib.sha256).hexdigest()[:32] for name in plain}

    def largest(self, runs: Sequence[LedgerRun], tags: Iterable[str] | None = None) -> float:
        """Largest epsilon of a unit: of these, or of any."""
        held: dict[str, tuple[int, ...]] = {}
        for at, run in enumerate(runs):
            for tag in run.providers:
                held[tag] = (*held.get(tag, ()), at)
        wanted = {held.get(tag, ()) for tag in (held if tags is None else tags)}
        return max((self.epsilon([runs[at] for at in each]) for each in wanted if each), default=0.0)


def new_content(cost: RunCost, cap: float | None) -> LedgerContent:
    """An empty ledger, whose delta and order are those of the first run."""
    order = best_order(cost, ORDERS, cap)
    key = secrets.token_hex(32)
    return LedgerContent(unit=cost.unit, delta=cost.delta, order=order, cap=cap, orders=ORDERS, key=key, runs={})


def new_entry(content: LedgerContent, names: Iterable[str], cost: RunCost) -> LedgerRun:
    """A run that is reserved now."""
    return LedgerRun(
        began=datetime.now(UTC).isoformat(timespec="seconds"),
        rounds=cost.sampling.rounds,
        noise_multiplier=cost.noise_multiplier,
        client_rate=cost.sampling.client_rate,
        provider_rate=cost.sampling.provider_rate,
        kind=cost.kind,
        epsilon=cost.epsilon,
        divergences=tuple(map(float, cost.divergences(content.orders))),
        providers=tuple(sorted(content.tags(names))),
    )
