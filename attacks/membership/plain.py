"""Membership findings in sentences without technical terms."""

from __future__ import annotations

from typing import Final

import numpy as np

from pfl_audit.attacks.membership.decision import Decision, Judged
from pfl_audit.attacks.membership.evaluation import FPR_LIMITS, Outcome, tpr_name
from pfl_audit.core.frequencies import hundredths, out_of
from pfl_audit.documents.units import DOCUMENT, Unit

WHO: Final = {
    "ZK": "an outsider who can only ask questions",
    "PK": "an attacker who also sees the model's confidences and losses",
    "RK": "an attacker who sees its losses and has trained models like it",
    "WB": "an attacker who has the model's weights",
}
"""Attacker by access."""


def rates_of(outcome: Outcome) -> tuple[float, float]:
    """Shares of the members that an attack finds, and of the non-members that it takes for members.

    At the lowest false-alarm rate that can be resolved; of an attack with hard calls, at its calls.
    """
    for limit in FPR_LIMITS:
        if (found := outcome.estimates.get(tpr_name(limit))) is not None:
            return found.value, limit
    calls = [(trial.calls, outcome.labels[trial.test]) for trial in outcome.trials]
    right = float(np.mean([made[labels].mean() for made, labels in calls]))
    return right, float(np.mean([made[~labels].mean() for made, labels in calls]))


def plain_sentence(decision: Decision, unit: Unit) -> str:
    """What the strongest attack does, and what an outsider can do who sees answers alone."""
    strongest = decision.strongest
    sentences = [_sentence(strongest, unit)]
    outsider = decision.by_access.get("ZK", ())
    if outsider and strongest.outcome.row.access != "ZK":
        sentences.append(_sentence(outsider[0], unit))
    return " ".join(sentences)


def _sentence(one: Judged, unit: Unit) -> str:
    who, (found, accused) = WHO[one.outcome.row.access], rates_of(one.outcome)
    if one.level in ("none", "unresolved"):
        than = "with a model that was not trained on them" if one.control else "by guessing"
        if one.level == "none":
            return f"{who[:1].upper()}{who[1:]} does no better than {than}."
        why = (
            "nothing here tells whether that is the training"
            if one.refusal
            else "these documents are too few to rule it out"
        )
        return f"{who[:1].upper()}{who[1:]} was not shown to do better than {than}; {why}."
    trained = "that were in training" if unit is DOCUMENT else "whose documents were in training"
    cases, count = out_of(found, int(one.outcome.attacked.sum()), f"{unit.nouns} {trained}")
    sign = "" if one.level == "leak" else " (a sign, not proof)"
    return (
        f"{cases[:1].upper()}{cases[1:]}, {who} picks out {count} while wrongly accusing "
        f"{hundredths(accused)} of 100 others{sign}."
    )
