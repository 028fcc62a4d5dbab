"""A form attack: how many tokens the fields of private forms have."""

from __future__ import annotations

import numpy as np

from pfl_audit.attacks.reconstruction.context import FormContext
from pfl_audit.attacks.reconstruction.inputs import FORMS, PUBLIC
from pfl_audit.core.attack import CheckSpec
from pfl_audit.core.metric import build_metric
from pfl_audit.core.results import Check, Finding
from pfl_audit.core.settings import Settings
from pfl_audit.models.protocol import Capability

LENGTH = CheckSpec("lengths.fields", "Length of private fields", frozenset({Capability.FORM_LOSS, FORMS, PUBLIC}))


class LengthAttack:
    """Counts tokens."""

    name = "lengths"
    subject = "forms"
    specs = (LENGTH,)
    Settings = Settings

    def run(self, context: FormContext, settings: Settings) -> list[Check]:
        """Count the tokens of every blank."""
        lengths = [blank.length for form in context.parts.private for blank, _ in context.target.blanks(form)]
        metric = build_metric("tokens", float(np.mean(lengths)), unit="fields", n=len(lengths))
        return [
            LENGTH.ran(metrics=[metric], finding=Finding(level="none", text="Tokens were counted.", remedy="None."))
        ]


ATTACK = LengthAttack()
