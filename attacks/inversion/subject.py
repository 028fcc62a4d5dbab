"""The subject: clients of federated learning share gradients of filled forms."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pfl_audit.attacks.inversion.inputs import GRADIENT, OFFERS, GradientInputs

if TYPE_CHECKING:
    from pfl_audit.attacks.inversion.opened import OpenedGradients
    from pfl_audit.core.subject import AuditJob


class Gradients:
    """Gradients that clients share."""

    name = "gradients"
    title = "shared gradients"
    Inputs = GradientInputs
    offers = OFFERS

    def missing(self, inputs: GradientInputs) -> str | None:
        """The template, unless it is given."""
        return GRADIENT if inputs.template is None else None

    def open(self, inputs: GradientInputs, job: AuditJob) -> OpenedGradients:
        """Open the model and make the gradients; see `gradients.open_gradients`."""
        from pfl_audit.attacks.inversion.gradients import open_gradients

        return open_gradients(inputs, job)


SUBJECT = Gradients()
