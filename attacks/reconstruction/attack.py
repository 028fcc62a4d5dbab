"""Reconstruction of scrubbed fields: CDMI against encoders of forms.

Source: cdmi-reconstruction, sections 3 to 5.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pfl_audit.attacks.reconstruction.specs import GUESSES, MULTI_SHOT, ONE_SHOT, ReconstructionSettings

if TYPE_CHECKING:
    from pfl_audit.attacks.reconstruction.context import FormContext
    from pfl_audit.core.results import Check


class ReconstructionAttack:
    """The likeliest fillings of a field; one attempt and several, on the same attempts."""

    name = "reconstruction"
    subject = "forms"
    specs = (GUESSES, ONE_SHOT, MULTI_SHOT)
    Settings = ReconstructionSettings

    def run(self, context: FormContext, settings: ReconstructionSettings) -> list[Check]:
        """Attack, and report the checks that were chosen.

        Raises:
            UsageError: No form has a label that is asked for.
        """
        from pfl_audit.attacks.reconstruction.run import run_checks

        return run_checks(context, settings)


ATTACK = ReconstructionAttack()
