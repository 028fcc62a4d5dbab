"""The Gaussian mechanism: clipping and noise (privacy-aware-docvqa, algorithm 1, lines 16 to 18)."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field
from typing import Literal

import torch
from torch import Tensor

from pfl_audit.privacy.correlation import Correlation
from pfl_audit.training.federated.secure_rng import SecretStream

Verdict = Literal["kept", "clipped", "zero", "dropped"]


def norm_of(update: Tensor) -> float:
    """L2 norm of an update, float32 (size,), summed in float64."""
    return float(torch.linalg.vector_norm(update, dtype=torch.float64))


def clip(update: Tensor, bound: float) -> tuple[Tensor, Verdict]:
    """Scale an update so that its L2 norm is at most ``bound``.

    Args:
        update: float32 (size,).
        bound: C, above 0.

    Returns:
        The clipped update and what was done to it. An update with a number that is not finite becomes zero.
    """
    norm = norm_of(update)
    if not math.isfinite(norm):
        return torch.zeros_like(update), "dropped"
    if norm <= bound:
        return update, "kept" if norm else "zero"
    clipped = update * (bound / norm)
    # Rounding to float32 may leave the norm a hair above the bound.
    excess = norm_of(clipped) / bound
    return (clipped / (excess * (1 + 2**-23)) if excess > 1 else clipped), "clipped"


@dataclass(frozen=True)
class GaussianNoise:
    """Gaussian noise of a round, divided among the participating clients.

    Attributes:
        multiplier: sigma, standard deviation over the clipping bound.
        bound: C.
        stream: Secret random stream.
        correlation: Correlation of the noise over rounds; None for noise of each round by itself.
    """

    multiplier: float
    bound: float
    stream: SecretStream
    correlation: Correlation | None = None
    _last: dict[int, tuple[int, deque[Tensor]]] = field(default_factory=dict, init=False, repr=False, compare=False)

    def share(self, size: int, round_number: int, client: int, participants: int) -> Tensor:
        """One client's part: N(0, sigma² C² / participants) a coordinate, float32 (size,).

        The parts of all participants add up to N(0, sigma² C²). In a round without participants the
        server draws the whole, as the only one.
        """
        scale = self.multiplier * self.bound / math.sqrt(participants)
        drawn = torch.from_numpy(self.stream.normal(size, "noise", round_number, client))
        if self.correlation is not None and len(self.correlation.strategy) > 1:
            drawn = self._correlated(self.correlation, drawn, round_number, client)
        return drawn.mul_(scale)

    def _correlated(self, correlation: Correlation, drawn: Tensor, round_number: int, client: int) -> Tensor:
        """Row of C^-1 Z of a round, from its row of Z, by the last b - 1 rounds.

        A process that lacks them draws the rounds before again: the stream gives the same numbers, and nothing of them
        is stored.
        """
        weights = correlation.strategy[1:]
        held, before = self._last.get(client, (round_number, deque()))
        if held >= round_number:
            held, before = 0, deque(maxlen=len(weights))
        for number in range(held + 1, round_number + 1):
            last = number == round_number
            row = drawn if last else torch.from_numpy(self.stream.normal(len(drawn), "noise", number, client))
            for weight, earlier in zip(weights, before, strict=False):
                row = row.sub_(earlier, alpha=weight)
            before.appendleft(row)
        self._last[client] = round_number, before
        return before[0] * float(correlation.norms[round_number - 1])
