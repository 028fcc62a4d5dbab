"""An attack on provider membership that is refitted on the known providers: distance to the nearest known member."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from pfl_audit.core.settings import Settings


class NearestSettings(Settings):
    """Settings of the attack."""

    neighbours: int = Field(default=1, ge=1, description="Known members that count.")


class NearestAttack:
    """Providers near a known member in accuracy and similarity are taken for members."""

    name = "nearest"
    title = "Nearest known members"
    features = ("acc", "nls")
    knowledge = "ZK+S"
    Settings = NearestSettings

    def scores(
        self,
        features: NDArray[np.float64],
        known: NDArray[np.int64],
        members: NDArray[np.bool_],
        seed: int,
        settings: NearestSettings,
    ) -> NDArray[np.float64]:
        """Minus the mean distance to the nearest known members."""
        reference = features[known[members]]
        distances = np.linalg.norm(features[:, None] - reference[None], axis=2)
        nearest = np.sort(distances, axis=1)[:, : settings.neighbours]
        return -nearest.mean(axis=1)


ATTACK = NearestAttack()
