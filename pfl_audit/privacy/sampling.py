"""Who takes part in a round, and with what chance."""

from __future__ import annotations

from dataclasses import dataclass

from pfl_audit.errors import UsageError

MOST_ROUNDS = 10_000_000


@dataclass(frozen=True)
class Sampling:
    """Poisson sampling of a provider over a training run.

    In every round the provider's client takes part with probability ``client_rate``, and in a client that
    takes part the provider is drawn with probability ``provider_rate``, each independently of everything else.

    Attributes:
        client_rate: 0 to 1, zero excluded; 1.0 where every client takes part in every round, so that
            providers are drawn independently.
        provider_rate: 0 to 1, zero excluded.
        rounds: How many rounds are run, 1 or more.
    """

    client_rate: float
    provider_rate: float
    rounds: int

    def check(self) -> None:
        """Raise UsageError where a rate or the number of rounds cannot be."""
        for name, rate in (("client", self.client_rate), ("provider", self.provider_rate)):
            if not 0 < rate <= 1:
                raise UsageError(f"the {name} sampling rate is {rate:g}", "Give a number above 0 and up to 1")
        if not 1 <= self.rounds <= MOST_ROUNDS:
            raise UsageError(f"{self.rounds} rounds cannot be accounted", f"Give a number from 1 to {MOST_ROUNDS}")

    @property
    def published_rate(self) -> float:
        """The one rate that the papers account with, q = q_c p (privacy-aware-docvqa, section 6.2.3)."""
        return self.client_rate * self.provider_rate

    def as_published(self) -> Sampling:
        """The same run as the papers see it: every provider drawn independently with ``published_rate``."""
        return Sampling(1.0, self.published_rate, self.rounds)
