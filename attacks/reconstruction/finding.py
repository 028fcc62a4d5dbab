"""Findings of reconstruction: when a model remembers forms, the remedies, and the end of the sentences.

That a model remembers forms is a membership signal, and no value put back.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pfl_audit.attacks.guesses.putting_back import FEWEST_UNITS
from pfl_audit.core.remedies import NO_SCORES, private_training
from pfl_audit.core.results import Finding, Level, SliceValue
from pfl_audit.core.verdict import Budget, at_most_weak, level_of
from pfl_audit.metrics.intervals import Estimate

REMEDIES = [
    "Do not hand out the weights of a model that was trained on documents like these.",
    private_training("documents"),
    "Do not share the scrubbed documents.",
    NO_SCORES,
    "Limit repeated queries on one page.",
]
PLAIN_ENDS: Final[dict[Level, str]] = {
    "leak": "",
    "weak": " This is a sign, not proof.",
    "none": " That is no evidence that these forms are remembered.",
    "unresolved": " These forms are too few to tell.",
}


ELSEWHERE: Final = (
    "Nothing need be found: the training.json of the model names other forms than the private part. Check --forms and "
    "--split-seed."
)
_PLAIN_ELSEWHERE: Final = " That says nothing: the model names other forms as those that it was trained on."
LEAST: Final = 0.2
"""Validation accuracy (F1 of fields or links, or share of hidden tokens) below which nothing found says little."""
_SAYS: Final = (
    ("public model", "it names the wrong candidates"),
    ("target", "what it has not learnt it cannot give away"),
)


def finding_of(
    level: Level,
    text: str,
    plain: str,
    shares: tuple[float, float],
    metric: str,
    about: dict[str, SliceValue],
    *,
    elsewhere: bool = False,
) -> Finding:
    """A finding of reconstruction.

    Args:
        level: Its level.
        text: What was found.
        plain: The same without technical terms, without its end.
        shares: Shares of what is put back by the attack, and by public knowledge alone, 0 to 1.
        metric: Metric that it rests on.
        about: Slice of the metric.
        elsewhere: Whether it is unresolved because the model was trained on other forms.
    """
    return Finding(
        level=level,
        text=text,
        remedy=" ".join(REMEDIES),
        remedies=REMEDIES if level in ("leak", "weak") else [],
        plain=plain + (_PLAIN_ELSEWHERE if elsewhere else PLAIN_ENDS[level]),
        success=shares[0],
        false_alarms=shares[1],
        metric=metric,
        slice=about,
    )


def memory_level(found: Estimate, new: Estimate | None, p_value: float | None, units: int, budget: Budget) -> Level:
    """A weak sign at most, where both are sure: better than public knowledge, and more so than on new forms.

    Of the second the bootstrap and a permutation of the units must be sure alike; where the permutation alone is, the
    finding is unresolved. Without new forms, memory of these forms cannot be distinguished from knowing their kind.

    Args:
        found: How far the attack lies above public knowledge on private forms.
        new: The same on new forms, or None.
        p_value: p-value of the permutation test between them, or None.
        units: Units on the side that has fewer.
    """
    effects, p_values = [found.above(0.0)], []
    if new is not None and p_value is not None:
        effects.append(found.minus(new).above(0.0))
        p_values.append(p_value)
    significant = any(p <= budget.weak for p in p_values)
    return at_most_weak(level_of(p_values, effects, budget, enough=units >= FEWEST_UNITS, resolved=not significant))


def smallest_difference(found: Estimate, new: Estimate | None, permuted: float | None, alpha: float) -> float:
    """Smallest difference that would have been found: every bound and test of ``memory_level`` begins above 0 there.

    Args:
        found: How far the attack lies above public knowledge on private forms.
        new: The same on new forms, or None.
        permuted: Smallest difference of the two that is significant by permutation, or None.
        alpha: Level.

    Returns:
        Between private and new forms, or over public knowledge without new ones; 0 where nothing spreads.
    """
    bounded = [found] if new is None else [found, found.minus(new)]
    needed = [one.value - one.lower_bound(alpha) for one in bounded]
    return max(0.0, permuted or 0.0, *needed)


def learnt_little(training: tuple[Mapping[str, object], Mapping[str, object]]) -> str:
    """A sentence a model that has learnt little, by the accuracy that its training record states; else nothing.

    Args:
        training: Records of the public model and of the target.
    """
    said = ""
    for record, (who, why) in zip(training, _SAYS, strict=True):
        accuracy = record.get("accuracy")
        if isinstance(accuracy, float) and accuracy < LEAST:
            said += f" The {who} has a validation accuracy of {accuracy:.2f}: {why}."
    return said
