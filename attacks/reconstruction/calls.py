"""What is asked of the procedures that propose tokens, in this process or another."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pfl_audit.attacks.reconstruction.attack import ReconstructionSettings
from pfl_audit.attacks.reconstruction.proposals import Kind, Proposer, proposers
from pfl_audit.models.calls import Calls, Workers
from pfl_audit.models.form_protocol import FormModel
from pfl_audit.models.openings import FormOpening

Held = Mapping[Kind, Proposer]
"""The procedures of the attack and of the baseline."""


@dataclass(frozen=True)
class HeldOpening:
    """How the models of the procedures were opened; as of Opening."""

    public: FormOpening
    target: FormOpening
    settings: ReconstructionSettings

    @property
    def version(self) -> str:
        """Version of pfl-audit."""
        return self.target.version

    def open(self) -> Held:
        """As of Opening."""
        return {one.kind: one for one in proposers(self.public.open(), self.target.open(), self.settings)}


Pair = tuple[FormModel, FormModel]
"""Two models that are asked about the same fields."""


@dataclass(frozen=True)
class PairOpening:
    """How two models were opened; as of Opening."""

    first: FormOpening
    second: FormOpening

    @property
    def version(self) -> str:
        """Version of pfl-audit."""
        return self.second.version

    def open(self) -> Pair:
        """As of Opening."""
        return self.first.open(), self.second.open()


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
        if public.fingerprint not in self.openings or target.fingerprint not in self.openings:
            return None
        pair = self.openings[public.fingerprint], self.openings[target.fingerprint]
        return self.workers.calls(HeldOpening(*pair, settings))

    def pair(self, first: FormModel, second: FormModel) -> Calls[Pair] | None:
        """Calls of two models; None where one of them is not held."""
        if first.fingerprint not in self.openings or second.fingerprint not in self.openings:
            return None
        return self.workers.calls(PairOpening(self.openings[first.fingerprint], self.openings[second.fingerprint]))
