"""What attacks that read documents out of gradients get."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pfl_audit.attacks.inversion.case import Case
from pfl_audit.core.context import AuditContext
from pfl_audit.core.store import Records
from pfl_audit.models.gradient_protocol import GradientModel


@dataclass(frozen=True, kw_only=True)
class GradientContext(AuditContext):
    """Context of attacks that read documents out of gradients.

    Attributes:
        model: Model whose gradients were shared, with its weights as they were then; the attacker has it too.
        cases: What an observer holds of each document, and apart from it the ground truth.
        records: Records of earlier runs; ``gradients.observation_key`` names an observation.
        states: Folder where a search may keep its state, so that it goes on when it was killed; it need not exist.
        public_form: Whether masked reports may show the empty form.
    """

    model: GradientModel
    cases: tuple[Case, ...]
    records: Records
    states: Path
    public_form: bool = False
