"""What the findings of an audit are about: a model, a form encoder, or a protocol of updates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pfl_audit.core.results import Check, Data

_MODEL: Final = "the model"


def audited(datasets: Sequence[Data], checks: Sequence[Check]) -> str:
    """What leaks, in a sentence; without a leak, all that was audited.

    Args:
        datasets: Data sets of the audit, which state what findings about them concern.
        checks: Checks with the subject that each belongs to.
    """
    leaking = {check.subject for check in checks if check.finding and check.finding.level == "leak"}
    chosen = [data for data in datasets if data.subject in leaking] or datasets
    return " and ".join(dict.fromkeys(data.audited or _MODEL for data in chosen)) or _MODEL
