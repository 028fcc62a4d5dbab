"""Memorization findings in sentences without technical terms."""

from __future__ import annotations

from pfl_audit.attacks.memorization.measures import ACC, EXPOSURE, RATIO, Memory
from pfl_audit.attacks.memorization.scores import GapEstimate
from pfl_audit.core.frequencies import hundredths, out_of
from pfl_audit.core.review import Access
from pfl_audit.documents.units import Unit
from pfl_audit.metrics.intervals import Estimate


def access_of(found: Memory, answers: GapEstimate | None) -> Access:
    """What the finding needs: answers alone where they come out right, else the scores that the other measures use."""
    head = found.headline
    by_scores = head is not None and head.name in (RATIO, EXPOSURE) and not _answer_gap(found, answers)
    return "scores" if by_scores else "answers"


def _answer_gap(found: Memory, answers: GapEstimate | None) -> tuple[Estimate, Estimate] | None:
    """Shares of right answers on pages of members and of others, where these alone are a finding of this level."""
    alone = any(one.name == ACC and one.level == found.level for one in found.results)
    both = answers.both if alone and answers else None
    return both if both and both[0].value > both[1].value else None


def plain_sentence(name: str, found: Memory, answers: GapEstimate | None, unit: Unit) -> str:
    """How many values come out from pages that do not show them, or how well their likelihood orders members.

    Args:
        name: The value in running text, such as "provider name".
        found: The test.
        answers: Shares of right answers, or None.
        unit: Unit of privacy.
    """
    if found.level == "unresolved":
        return f"Whether the model remembers the {name} cannot be said with these pages."
    if found.level == "none":
        than = (
            "a model that was not trained on them" if found.headline and found.headline.explained else "that of others"
        )
        return f"The model does not give the {name} of {unit.nouns} in training away more than {than}."
    sign = "" if found.level == "leak" else " (a sign, not proof)"
    if answers and (gap := _answer_gap(found, answers)):
        cases, count = out_of(gap[0].value, answers.pages[0], "pages")
        return (
            f"{cases[:1].upper()}{cases[1:]} without their {name}, of {unit.nouns} in training, the model answers "
            f"{count} with the true one; of 100 pages of other {unit.nouns}, "
            f"{hundredths(gap[1].value)}{sign}."
        )
    head = found.headline
    pages = head.training_pages if head is not None else None
    where = f", where it stands on {pages} or more training pages," if pages is not None else ""
    if head is not None and where and head.format == "points":
        return f"From pages without it, the model gives the {name} of {unit.nouns} in training{where} away{sign}."
    ratio = next((one for one in (head, *found.results) if one is not None and one.name.startswith(RATIO)), None)
    if ratio is not None and ratio.value.value > ratio.chance:
        return (
            f"An attacker who sees the model's scores can tell by the {name}{where} which of two {unit.nouns} was in "
            f"training in {hundredths(ratio.value.value)} of 100 cases, where guessing gives 50{sign}."
        )
    return f"An attacker who sees the model's scores finds signs of the {name} of {unit.nouns} in training{sign}."
