"""Reconstruction of scrubbed fields: CDMI against encoders of forms.

Source: cdmi-reconstruction, sections 3 to 5.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pfl_audit.attacks.reconstruction.inputs import FORMS, PUBLIC
from pfl_audit.attacks.reconstruction.settings import ReconstructionSettings
from pfl_audit.core.attack import CheckSpec
from pfl_audit.models.family import Capability

if TYPE_CHECKING:
    from pfl_audit.attacks.reconstruction.context import FormContext
    from pfl_audit.core.results import Check

_NEEDS = frozenset({Capability.FORM_LOSS, FORMS, PUBLIC})
_THREAT = {
    "knows": "the form with one field scrubbed, the field's label, place and number of tokens, and public forms of the "
    "same kind",
    "sees": "weights and architecture of the model, and so its loss for any way to fill the form in",
}
ONE_SHOT = CheckSpec(
    "reconstruction.one_shot",
    "Reconstruction of scrubbed fields, one attempt each",
    _NEEDS,
    {**_THREAT, "does": "fills the field in token by token, once"},
)
MULTI_SHOT = CheckSpec(
    "reconstruction.multi_shot",
    "Reconstruction of scrubbed fields, the most plausible of several attempts",
    _NEEDS,
    {
        **_THREAT,
        "does": "fills every field in several times, and believes what is likelier to the model than it should be",
    },
)


class ReconstructionAttack:
    """One shot and several, on the same attempts."""

    name = "reconstruction"
    subject = "forms"
    specs = (ONE_SHOT, MULTI_SHOT)
    Settings = ReconstructionSettings

    def run(self, context: FormContext, settings: ReconstructionSettings) -> list[Check]:
        """Attack, and report the checks that were chosen.

        Raises:
            UsageError: No form has a label that is asked for.
        """
        from pfl_audit.attacks.reconstruction.run import run_checks

        return run_checks(context, settings)


ATTACK = ReconstructionAttack()
