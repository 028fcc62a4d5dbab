"""What a federated or private run does: everything that decides the weights it ends with."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

from pfl_audit.errors import UsageError

Mode = Literal["central", "fl", "central-dp", "fl-dp"]
Scheme = Literal["providers", "clients"]


@dataclass(frozen=True)
class FederatedSettings:
    """Rounds, and what happens in each.

    Attributes:
        rounds: Of the federation (T).
        clients_per_round: Clients that take part in a round without privacy (K of N, without replacement).
        local_epochs: Passes over a client's (with privacy: a provider's) queries in a round.
        local_steps: Most optimiser steps of one local training, or None.
        batch_size: Queries a step.
        learning_rate: Of the local optimiser.
        optimizer: Of a local training, which begins afresh each time.
        weight_decay: Of AdamW.
        strategy: How the server takes a round's update.
        freeze_visual: Keep the DiT as it is, and encode each page once.
        seed: Seed of the order of queries, dropout, adapters, and who takes part without privacy.
        validate_every: Rounds between looks at the validation part.
        validation_queries: How many of its queries are asked at most.
    """

    rounds: int = 10
    clients_per_round: int = 2
    local_epochs: int = 1
    local_steps: int | None = None
    batch_size: int = 8
    learning_rate: float = 2e-4
    optimizer: str = "adamw"
    weight_decay: float = 0.01
    strategy: str = "fedavg"
    freeze_visual: bool = True
    seed: int = 0
    validate_every: int = 5
    validation_queries: int = 256

    def check(self) -> None:
        """Raise UsageError where a setting cannot be."""
        for name in ("rounds", "clients_per_round", "local_epochs", "batch_size", "validate_every"):
            if getattr(self, name) < 1:
                raise UsageError(f"{name} must be 1 or more", f"Correct --{name.replace('_', '-')}")
        if self.local_steps is not None and self.local_steps < 1:
            raise UsageError("local_steps must be 1 or more", "Correct --local-steps")
        if not 0 < self.learning_rate < 1:
            raise UsageError("the learning rate must lie between 0 and 1", "Correct --learning-rate")

    def to_dict(self) -> dict[str, Any]:
        """As JSON."""
        return asdict(self)


@dataclass(frozen=True)
class PrivacySettings:
    """What is promised, and what is done for it. The unit is a provider with all its documents.

    Attributes:
        sampling: ``providers``: every client takes part and providers alone are drawn; ``clients``: clients are
            drawn, and providers within them (algorithm 1 of the paper).
        client_rate: Probability that a client takes part, with ``clients``.
        provider_rate: Probability that a provider takes part, in a client that does.
        clip: Largest L2 norm of a provider's update (C).
        epsilon: Target; decides the noise multiplier unless that is given.
        noise_multiplier: sigma, or None with ``epsilon``.
        delta: Of the promise.
        accounting: ``valid``, or ``published`` to repeat the papers' figure.
        denominator: What a round's sum is divided by; None for the number of providers to expect.
        noise_seed: Draw sampling and noise from a seed, to repeat a run; None draws a secret key.
    """

    sampling: Scheme = "providers"
    client_rate: float = 0.2
    provider_rate: float = 0.2
    clip: float = 1.0
    epsilon: float | None = 8.0
    noise_multiplier: float | None = None
    delta: float = 1e-5
    accounting: Literal["valid", "published"] = "valid"
    denominator: float | None = None
    noise_seed: int | None = None

    def check(self) -> None:
        """Raise UsageError where a setting cannot be."""
        for name in ("client_rate", "provider_rate"):
            if not 0 < getattr(self, name) <= 1:
                raise UsageError(f"{name} must lie above 0 and at 1 or below", f"Correct --{name.replace('_', '-')}")
        if not 0 < self.clip < float("inf"):
            raise UsageError(
                f"clip is {self.clip}: an update of norm 0 teaches nothing, and without a bound nothing is private",
                "Give --clip above 0",
            )
        if not 0 < self.delta < 1:
            raise UsageError("delta must lie between 0 and 1", "Correct --delta")
        if (self.epsilon is None) == (self.noise_multiplier is None):
            raise UsageError("one of --epsilon and --sigma is needed, and not both", "Give the target or the noise")
        for name, value in (("epsilon", self.epsilon), ("sigma", self.noise_multiplier)):
            if value is not None and not 0 < value < float("inf"):
                raise UsageError(f"{name} must be above 0", f"Correct --{name}")
        if self.denominator is not None and not 0 < self.denominator < float("inf"):
            raise UsageError("the denominator must be above 0", "Correct --denominator")

    def to_dict(self) -> dict[str, Any]:
        """As JSON."""
        return asdict(self)

    def to_public(self) -> dict[str, Any]:
        """As JSON without the seed of the noise: whoever knows it can take the noise off again."""
        return {**asdict(self), "noise_seed": self.noise_seed is not None}
