"""The subject: clients of federated learning share gradients of filled forms."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pfl_audit.attacks.inversion.inputs import GRADIENT, OFFERS, GradientInputs
from pfl_audit.core.subject import AuditJob, LazySubject
from pfl_audit.errors import NotAuditableError
from pfl_audit.models.family import Precision

if TYPE_CHECKING:
    from pfl_audit.attacks.inversion.opened import OpenedGradients


def require_float32(precision: Precision) -> None:
    """Raise NotAuditableError for a low precision: second derivatives and exact recovery do not survive it."""
    if precision != "fp32":
        raise NotAuditableError(
            f"gradients are computed and inverted in float32 alone, not in {precision}", "Leave --precision out"
        )


def _open(inputs: GradientInputs, job: AuditJob) -> OpenedGradients:
    require_float32(job.precision)
    if inputs.round is not None:
        from pfl_audit.attacks.inversion.rounds.opened import open_rounds

        inputs.check_round()
        return open_rounds(inputs, inputs.round, job)
    from pfl_audit.attacks.inversion.gradients import open_gradients

    return open_gradients(inputs, job)


SUBJECT = LazySubject("gradients", "shared gradients", GradientInputs, OFFERS, ("template", "round"), GRADIENT, _open)
