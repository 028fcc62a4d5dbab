"""A model whose gradients are shared, and what observers hold of them, opened."""

from __future__ import annotations

from dataclasses import dataclass

from pfl_audit.attacks.inversion.context import GradientContext, GradientParts
from pfl_audit.attacks.inversion.inputs import GRADIENT
from pfl_audit.core.context import AuditContext, context_of
from pfl_audit.core.redaction import Redactor
from pfl_audit.core.results import Data
from pfl_audit.core.subject import AuditedModels
from pfl_audit.models.protocol import Capability


@dataclass(frozen=True, kw_only=True)
class OpenedGradients(GradientParts):
    """A model whose gradients are shared.

    Attributes:
        about: Facts of the documents.
    """

    about: Data

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
        return context_of(GradientContext, common, self)

    def models(self) -> AuditedModels:
        """Facts of the model."""
        return AuditedModels(self.model.describe())

    def data(self, redactor: Redactor) -> Data:
        """Facts of the documents."""
        return self.about

    def work(self) -> dict[str, int]:
        """Inversions that were made, and those that were in the store."""
        return {"inversions_made": self.records.put_count, "inversions_reused": self.records.got_count}
