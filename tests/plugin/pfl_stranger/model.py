"""A model family: Donut under another name, with all that its protocols ask for."""

from __future__ import annotations

from pathlib import Path

from pfl_audit.models.donut.family import DonutFamily
from pfl_audit.models.donut.gradients import DonutGradients
from pfl_audit.models.donut.model import DonutModel
from pfl_audit.models.family import Settings


class TeacupModel(DonutModel):
    """A Donut that is called Teacup."""

    family = "teacup"


class TeacupGradients(DonutGradients):
    """The training gradient of a Teacup."""

    family = "teacup"


class TeacupFamily(DonutFamily):
    """Recognised by a key of its own in config.json."""

    name = "teacup"
    precedence = 10

    def recognises(self, config: Settings, tensors: frozenset[str]) -> bool:
        """Whether config.json has the key ``teacup``."""
        return "teacup" in config

    def open(self, folder: Path, *, device: str) -> TeacupModel:
        """Open a checkpoint to answer questions."""
        return TeacupModel(folder, device)

    def open_gradients(self, folder: Path, *, device: str) -> TeacupGradients:
        """Open a checkpoint to take its training gradient."""
        return TeacupGradients(folder, device)


FAMILY = TeacupFamily()
