"""What is asked of the procedures that propose tokens, in this process or another."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pfl_audit.attacks.reconstruction.proposals import Kind, Proposer, proposers
from pfl_audit.attacks.reconstruction.specs import ReconstructionSettings
from pfl_audit.models.calls import Calls, Workers
from pfl_audit.models.form_protocol import FormModel
from pfl_audit.models.openings import FormOpening

Held = Mapping[Kind, Proposer]
"""The procedures of the attack and of the baseline."""


Pair = tuple[FormModel, FormModel]
"""Two models that are asked about the same fields."""


@dataclass(frozen=True)
class PairOpening:
    """Opening of two models."""

    first: FormOpening
    second: FormOpening

    @property
    def version(self) -> str:
        """Version of pfl-audit."""
        return self.second.version

    def open(self) -> Pair:
        """Open it, and refuse a model that has changed since."""
        return self.first.open(), self.second.open()


@dataclass(frozen=True)
class HeldOpening:
    """Opening of the public model and of the target of the procedures."""

    pair: PairOpening
    settings: ReconstructionSettings

    @property
    def version(self) -> str:
        """Version of pfl-audit."""
        return self.pair.version

    def open(self) -> Held:
        """Open it, and refuse a model that has changed since."""
        return {one.kind: one for one in proposers(*self.pair.open(), self.settings)}


@dataclass(frozen=True)
class FormCalls:
    """Calls of models of forms in other processes.

    Attributes:
        workers: What holds the models.
        openings: Fingerprint of a model to how it was opened.
    """

    workers: Workers
    openings: Mapping[str, FormOpening]

    def of(self, public: FormModel, target: FormModel, settings: ReconstructionSettings) -> Calls[Held] | None:
        """Calls of the procedures of two models; None where one of them is not held, such as that of an epoch."""
        pair = self._opening(public, target)
        return self.workers.calls(HeldOpening(pair, settings)) if pair is not None else None

    def pair(self, first: FormModel, second: FormModel) -> Calls[Pair] | None:
        """Calls of two models; None where one of them is not held."""
        pair = self._opening(first, second)
        return self.workers.calls(pair) if pair is not None else None

    def _opening(self, *models: FormModel) -> PairOpening | None:
        held = [self.openings[model.fingerprint] for model in models if model.fingerprint in self.openings]
        return PairOpening(*held) if len(held) == len(models) else None
