"""The Gaussian mechanism: clipping and noise (privacy-aware-docvqa, algorithm 1, lines 16 to 18)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

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
    """

    multiplier: float
    bound: float
    stream: SecretStream

    def share(self, size: int, round_number: int, client: int, participants: int) -> Tensor:
        """One client's part: N(0, sigma² C² / participants) a coordinate, float32 (size,).

        The parts of all participants add up to N(0, sigma² C²). In a round without participants the
        server draws the whole, as the only one.
        """
        scale = self.multiplier * self.bound / math.sqrt(participants)
        drawn = self.stream.normal(size, "noise", round_number, client)
        return torch.from_numpy(drawn).mul_(scale)
