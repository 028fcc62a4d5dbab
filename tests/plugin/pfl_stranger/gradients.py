"""A gradient attack: the norm of what a client shares."""

from __future__ import annotations

from pydantic import Field

from pfl_audit.attacks.inversion.context import GradientContext
from pfl_audit.attacks.inversion.inputs import GRADIENT
from pfl_audit.core.attack import CheckSpec
from pfl_audit.core.metric import build_metric
from pfl_audit.core.results import Check, Finding
from pfl_audit.core.settings import Settings
from pfl_audit.models.protocol import Capability

NORM = CheckSpec("norms.shared", "Norm of shared gradients", frozenset({Capability.GRADIENT, GRADIENT}))


class NormSettings(Settings):
    """Settings of the attack."""

    scale: float = Field(default=1.0, gt=0, description="Factor on the norm.")


class NormAttack:
    """Measures every observation."""

    name = "norms"
    subject = "gradients"
    specs = (NORM,)
    Settings = NormSettings

    def run(self, context: GradientContext, settings: NormSettings) -> list[Check]:
        """Take the norm of every gradient."""
        norms = [sum(float(part.norm()) ** 2 for part in case.seen.gradient.values()) ** 0.5 for case in context.cases]
        metric = build_metric("gradient norm", settings.scale * sum(norms) / len(norms), unit="documents", n=len(norms))
        return [NORM.ran(metrics=[metric], finding=Finding(level="none", text="Norms were taken.", remedy="None."))]


ATTACK = NormAttack()
