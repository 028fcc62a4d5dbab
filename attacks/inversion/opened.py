"""A model whose gradients are shared, and what observers hold of them, opened."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pfl_audit.attacks.inversion.context import Case, GradientContext, Holder
from pfl_audit.attacks.inversion.inputs import GRADIENT
from pfl_audit.core.context import AuditContext
from pfl_audit.core.redaction import Redactor
from pfl_audit.core.results import Data
from pfl_audit.core.store import Records
from pfl_audit.core.subject import AuditedModels
from pfl_audit.models.calls import Calls, Workers
from pfl_audit.models.gradient_protocol import GradientModel
from pfl_audit.models.protocol import Capability


@dataclass(frozen=True)
class OpenedGradients:
    """A model whose gradients are shared.

    Attributes:
        cases: What an observer holds of each document, and the ground truth.
        public_form: Whether masked reports may show the empty form.
        calls: As of GradientContext; likewise ``workers``.
    """

    model: GradientModel
    cases: tuple[Case, ...]
    records: Records
    states: Path
    about: Data
    public_form: bool = False
    calls: Calls[Holder] | None = None
    workers: Workers | None = None

    def have(self) -> frozenset[str]:
        """The gradients, and what the model offers to closed forms."""
        have = {GRADIENT, Capability.GRADIENT}
        if self.model.text_decoder() is not None:
            have.add(Capability.TEXT_DECODER)
        if self.model.word_encoder() is not None:
            have.add(Capability.WORD_ENCODER)
        return frozenset(have)

    def context(self, common: AuditContext) -> GradientContext:
        """Context for the attacks."""
        return GradientContext(
            model=self.model,
            cases=self.cases,
            records=self.records,
            states=self.states,
            calls=self.calls,
            workers=self.workers,
            public_form=self.public_form,
            **vars(common),
        )

    def models(self) -> AuditedModels:
        """Facts of the model."""
        return AuditedModels(self.model.describe())

    def data(self, redactor: Redactor) -> Data:
        """Facts of the documents."""
        return self.about

    def work(self) -> dict[str, int]:
        """Inversions that were made, and those that were in the store."""
        return {"inversions_made": self.records.put_count, "inversions_reused": self.records.got_count}
