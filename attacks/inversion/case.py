"""Observations of federated learning, and apart from them the ground truth for scores."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from pfl_audit.attacks.inversion.template.template import Template
from pfl_audit.models.gradient_protocol import Text


@dataclass(frozen=True, eq=False)
class Observation:
    """Everything that an attack gets: there is no truth in it.

    Attributes:
        name: Of the document, for progress and records; not of its file.
        template: The empty form as the network sees it: its pixels are uint8 (*model.page, 3), its fields and words
            are placed on them.
        gradient: float32, by parameter; each tied tensor once. What a client shared, with its noise.
        batch: Samples that it is the mean over.
    """

    name: str
    template: Template
    gradient: Mapping[str, Tensor]
    batch: int = 1

    @property
    def stem(self) -> str:
        """The name, for files."""
        return self.name.replace(" ", "-")


@dataclass(frozen=True, eq=False)
class Truth:
    """One sample that the gradient was computed on.

    Attributes:
        page: uint8 (*model.page, 3), as the network saw it.
        values: Field id to what is written there; None where it is unknown (a page of the user's own).
    """

    page: NDArray[np.uint8]
    text: Text
    values: Mapping[str, str] | None


@dataclass(frozen=True, eq=False)
class Case:
    """An observation, and what is known of its samples.

    Attributes:
        truths: One a sample, in the order of the batch; empty where only the gradient is at hand.
    """

    seen: Observation
    truths: tuple[Truth, ...] = ()
