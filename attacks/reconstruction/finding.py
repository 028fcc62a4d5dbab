"""Findings of reconstruction: their remedies, and the end of their sentences."""

from __future__ import annotations

from typing import Final

from pfl_audit.core.remedies import NO_SCORES, private_training
from pfl_audit.core.results import Finding, Level, SliceValue

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
