"""Wording of what closed forms recovered, beside other fillings of the same form."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pfl_audit.attacks.inversion.analytic.limits import CONDITIONS, Limit
from pfl_audit.attacks.inversion.bound import NoiseBound
from pfl_audit.attacks.inversion.controls import ALL_BOXES, ANY_ORDER, FILLINGS, Counts, pooled
from pfl_audit.attacks.inversion.decision import Decision, worst
from pfl_audit.core.frequencies import hundredths, out_of
from pfl_audit.core.metric import build_metric
from pfl_audit.core.results import Finding, Level, Metric
from pfl_audit.metrics.intervals import exact_share

REMEDIES = [
    "Add noise to updates that is calibrated to a guarantee (train --mode fl-dp): only this has a bound.",
    "Aggregate updates securely over many clients. Few are not enough: the words of all pages of a sum can come back.",
    "Do not count on clipping or on local steps, of SGD or of Adam, instead of a gradient: words come back from them.",
    "Keep templates out of reach or perturb them (pfl-audit defend), which does not stop the closed forms.",
]
BOUNDED = "The noise on the update hides the client's page, even from an observer who knows that it is one of two."
NOTHING = "there is nothing to count"
NOT_SHOWN = "Nothing came back that the form and the question do not give away. That does not show that nothing can."


def against(found: Decision | None, quiet: Sequence[Mapping[str, Counts]] = (), unit: str = "tokens") -> list[Metric]:
    """The share that decides, with what other fillings would have given; and the same of noise.

    Args:
        quiet: Counts of noise of each update's size, by measure.
        unit: What is counted.
    """
    if found is None:
        return []
    name = f"private {found.measure}"
    metrics = [counted(name, *found.right, unit, chance=found.chance)]
    of_noise = pooled(quiet).get(found.measure)
    if of_noise is not None:
        metrics.append(counted(f"{name}, of noise", int(of_noise[0, 0]), int(of_noise[0, 1]), unit))
    return metrics


def counted(
    name: str, right: int, count: int, unit: str, *, chance: float | None = None, missing: str = NOTHING
) -> Metric:
    """A share of what was counted, with its exact interval.

    Args:
        unit: What is counted, in the plural.
        chance: As of ``build_metric``; likewise ``missing``.
    """
    return build_metric(
        name,
        exact_share(right, count),
        format="percent",
        n=count,
        unit=unit,
        method="exact (Clopper-Pearson)",
        chance=chance,
        missing=missing,
    )


def recalled(measure: str, right: int, wanted: int, named: int, unit: str) -> list[Metric]:
    """Recall and precision of a measure."""
    return [
        counted(f"{measure}, {name}", right, count, unit, missing="none was named")
        for name, count in (("recall", wanted), ("precision", named))
    ]


def beside(found: Decision | None, what: str, quiet: Sequence[Mapping[str, Counts]] = ()) -> str:
    """Sentence on private tokens, and what other fillings of the form would have given.

    Args:
        what: Whose tokens, in the plural.
        quiet: Counts of noise of each update's size, by measure.
    """
    if found is None:
        return "There is no private token that could be counted."
    right, count = found.right
    of_noise = pooled(quiet).get(found.measure)
    control = ""
    if of_noise is not None:
        by_chance, named = (int(number) for number in of_noise[0])
        among = f" among {named} that are named" if named > count else ""
        control = f" Noise of the update's size gives {by_chance} right ones{among}."
    return (
        f"Of the {count} tokens of {what}, {right} are right ({found.measure}). For {FILLINGS} other fillings of the "
        f"same forms {100 * found.chance:.1f} % would have been right on average, and {100 * found.most:.1f} % at most "
        f"(joint p {found.p:.3f}).{control}"
    )


def not_shown(found: Decision | None, what: str, others: str = "other fillings of the form") -> str:
    """Sentences of an unresolved finding without technical terms: what came back may be too little to tell.

    Args:
        what: Private tokens, in the plural.
        others: What chance is taken from.
    """
    if found is None or not found.above:
        return NOT_SHOWN
    right, count = found.right
    return (
        f"{right} of {count} {what} came back; {others} would have given {hundredths(found.chance)} of 100. That is "
        "too little to tell it from chance, and does not show that nothing can come back."
    )


def closed_finding(
    found: Decision | None,
    text: str,
    what: str,
    limits: Sequence[Sequence[Limit]],
    level: Level = "unresolved",
    bounds: Sequence[NoiseBound | None] = (),
) -> Finding:
    """Finding of a closed form.

    Args:
        text: Sentences on what came back.
        what: Private tokens, in the plural.
        limits: Why something is missing, by document.
        level: Of what was read in recovered pixels.
        bounds: What stated noise allows, of each document; None where no noise is stated.
    """
    said = worst(level, found.level if found is not None else "unresolved")
    stated = [bound for bound in bounds if bound is not None]
    causes = list(dict.fromkeys(limit for some in limits for limit in some))
    if said == "unresolved" and stated and len(stated) == len(bounds):
        weakest = max(stated, key=lambda bound: bound.apart / bound.sigma)
        said = "none" if weakest.shows else said
        text = f"{text} {weakest.words}"
    if said == "unresolved":
        text = f"{text} {unresolved(causes, above=found is not None and found.above)}"
        if not any(bound.measured is None for bound in stated):
            text += (
                " That nothing can come back is only shown by noise of a stated size and clipping (--noise, --clip)."
            )
    quiet = BOUNDED if said == "none" else not_shown(found, what)
    share, chance = (found.share, found.chance) if found is not None else (None, None)
    return Finding(
        level=said,
        text=text,
        remedy=" ".join(REMEDIES),
        remedies=REMEDIES if said in ("leak", "weak") else [],
        plain=_plain(found, what) if said in ("leak", "weak") else quiet,
        success=share,
        false_alarms=chance,
        metric=f"private {found.measure}" if found is not None else "tokens exact",
    )


def unresolved(causes: Sequence[Limit], *, above: bool = False) -> str:
    """Why something is missing, and under which condition it would come back.

    Args:
        above: Whether more came back than chance gives, and too little to tell it from chance.
    """
    if not causes and above:
        return "Unresolved: what came back is too little to tell it from chance."
    if not causes:
        return "Unresolved, and no cause was found."
    needs = list(dict.fromkeys(CONDITIONS[limit.cause] for limit in causes))
    return f"Unresolved: {'; '.join(limit.words for limit in causes)}. To work, {', and '.join(needs)}."


def _plain(found: Decision | None, what: str) -> str:
    if found is None or found.level not in ("leak", "weak"):
        return "Whoever receives one client's update can read words of the client's page in the recovered picture."
    cases, came = out_of(found.share, found.right[1], what, what)
    how = "without their order" if found.measure in (ANY_ORDER, ALL_BOXES) else "exactly"
    return (
        f"{cases[:1].upper()}{cases[1:]}, whoever receives one client's update recovers {came} {how}; who has only "
        f"the form and the question would get {hundredths(found.chance)} of 100."
    )
