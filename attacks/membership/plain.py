"""Membership findings in sentences without technical terms."""

from __future__ import annotations

from typing import Final

import numpy as np

from pfl_audit.attacks.membership.decision import Decision, Judged
from pfl_audit.attacks.membership.evaluation import FPR_LIMITS, Outcome, tpr_name
from pfl_audit.core.frequencies import hundredths, out_of
from pfl_audit.core.power import ENOUGH
from pfl_audit.documents.units import DOCUMENT, Unit

WHO: Final = {
    "ZK": "an outsider who can only ask questions",
    "PK": "an attacker who also sees the model's confidences and losses",
    "RK": "an attacker who sees the model's losses and has trained a similar model",
    "WB": "an attacker who has the model's weights",
}
"""Attacker by access."""
_SIGN = " (a sign, not proof; up to one in ten audits of a model without a leak show a sign or a leak)"


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
    first, outsider = decision.strongest, decision.by_access.get("ZK", ())
    chosen = [first, *outsider[:1]] if first.outcome.row.access != "ZK" else [first]
    # Those that can conclude come first: where the first cannot, none can.
    said = [_sentence(one, unit, "anyone" if first.refusal else WHO[one.outcome.row.access]) for one in chosen]
    return " ".join(text[:1].upper() + text[1:] for text in dict.fromkeys(said))


def _sentence(one: Judged, unit: Unit, who: str) -> str:
    (found, accused), attacked = rates_of(one.outcome), one.outcome.attacked
    trained = "that were in training" if unit is DOCUMENT else "whose documents were in training"
    if one.level in ("none", "unresolved"):
        fewest = min(int(attacked.sum()), int((~attacked).sum()))
        few = f"{fewest} {unit.nouns} of one class were attacked, and {ENOUGH} of each class are needed"
        if why := few if fewest < ENOUGH else one.refusal:
            return f"whether {who} can tell which {unit.possessed} were in training cannot be decided, because {why}."
        than = f"the same attack on a model that was not trained on these {unit.nouns}" if one.control else "guessing"
        pairs = f"{hundredths(one.smallest)} of 100 pairs of one in training and one not"
        power = f"one that ranks {pairs} rightly is found in four of five such audits"
        power = power if one.level == "none" else f"these {unit.nouns} are too few to rule it out"
        return f"no advantage of {who} over {than} was found; {power}."
    sign = "" if one.level == "leak" else _SIGN
    if round(found - accused, 2) <= 0:  # counts are of the score, the level is of what it is compared with
        than = "with this model than with one that was not trained on them" if one.control else "than others"
        return f"{who} ranks {unit.nouns} {trained} higher {than}; the difference is too small to pick them out{sign}."
    cases, count = out_of(found, int(attacked.sum()), f"{unit.nouns} {trained}")
    return f"{cases}, {who} picks out {count} while wrongly accusing {hundredths(accused)} of 100 others{sign}."
