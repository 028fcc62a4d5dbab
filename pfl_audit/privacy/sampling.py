"""Sampling of clients and providers for a round."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pfl_audit.errors import UsageError

MAX_ROUNDS = 10_000_000
MOST_BANDS = 256
"""Most rounds that noise is correlated over."""


TrialsDrawn = Literal["fixed", "poisson", "negative-binomial"]
"""Distribution of the number of trials of a search over hyper-parameters; ``fixed`` is not drawn."""


@dataclass(frozen=True)
class Sampling:
    """Poisson sampling of a provider over a training run.

    In every round the client of the provider participates with probability ``client_rate``, and a participating client
    draws the provider with probability ``provider_rate``, all independently.

    Attributes:
        client_rate: Participation probability of a client, above 0, at most 1; 1.0 if every client participates in
            every round, so that providers are drawn independently.
        provider_rate: Sampling probability of a provider in a participating client, above 0, at most 1.
        rounds: Number of rounds, at least 1.
    """

    client_rate: float
    provider_rate: float
    rounds: int

    def check(self) -> None:
        """Raise UsageError if a rate or the number of rounds is out of range."""
        for name, rate in (("client", self.client_rate), ("provider", self.provider_rate)):
            if not 0 < rate <= 1:
                raise UsageError(f"the {name} sampling rate is {rate:g}", "Give a number above 0 and up to 1")
        if not 1 <= self.rounds <= MAX_ROUNDS:
            raise UsageError(f"{self.rounds} rounds cannot be accounted", f"Give a number from 1 to {MAX_ROUNDS}")

    @property
    def published_rate(self) -> float:
        """Single sampling rate of the published accounting, q = q_c p (privacy-aware-docvqa, section 6.2.3)."""
        return self.client_rate * self.provider_rate

    def as_published(self) -> Sampling:
        """The same run by published accounting: every provider drawn independently with ``published_rate``."""
        return Sampling(1.0, self.published_rate, self.rounds)


def participations(rounds: int, separation: int | None) -> int:
    """Most rounds of ``rounds`` that a provider takes part in, if they are ``separation`` apart; all if it is None."""
    return -(-rounds // (separation or 1))


def clients_drawn(rounds: Mapping[str, Any], clients: int) -> int:
    """Clients a round of ``clients`` (federated-docvqa-pilot, section 4, for a fraction)."""
    fraction = rounds.get("client_fraction")
    if fraction is None:
        return int(rounds["clients_per_round"])
    return int(clients * fraction + 1e-9)  # 100 * 0.29 is 28.999999999999996


def public_providers(privacy: Mapping[str, Any], clients: int) -> int | None:
    """Number of providers that settings of privacy make known, or its lower bound for groups; None without one."""
    return privacy.get("public_providers") or clients * (privacy.get("minimum_providers") or 0) or None
