"""Units of privacy of a guarantee: their names, their adjacency, and what follows for several units together."""

from __future__ import annotations

from dataclasses import dataclass
from math import exp
from typing import Final, Literal

_MOST: Final = 1000
_NOTHING: Final = 0.5
PrivacyUnit = Literal["provider", "document", "example"]


@dataclass(frozen=True)
class UnitWords:
    """Words for a unit.

    Attributes:
        noun: Name in running text, singular; its plural has an s.
        whole: All that is added or removed together.
        coarser: Whoever has several of them, which are no unit together; empty for the coarsest unit.
    """

    noun: str
    whole: str
    coarser: str = ""

    @property
    def adjacency(self) -> str:
        """Name of the adjacency by adding or removing one."""
        return f"add or remove {self.whole}"


UNITS: Final[dict[PrivacyUnit, UnitWords]] = {
    "provider": UnitWords("provider", "one provider with all its documents"),
    "document": UnitWords("document", "one document with all its pages and questions", "a provider"),
    "example": UnitWords("question", "one question of a document", "a document or a provider"),
}


def unit_words(unit: str) -> UnitWords:
    """Words for a unit that a record states; those of a provider for a unit that is none of ours."""
    return next((words for name, words in UNITS.items() if name == unit.casefold()), UNITS["provider"])


def several_units(unit: PrivacyUnit, epsilon: float, delta: float) -> str:
    """Return the sentence on several units of one person or company; empty for the coarsest unit.

    By group privacy k units have k epsilon at delta times the sum of e^(i epsilon) for i below k (Vadhan 2017, "The
    Complexity of Differential Privacy", lemma 2.2, without its last step), which says nothing from 1/2 on.
    """
    words = UNITS[unit]
    if not words.coarser:
        return ""
    most, together = 1, delta
    while most < _MOST and (more := together + delta * exp(min(most * epsilon, 700.0))) < _NOTHING:
        most, together = most + 1, more
    said = (
        f"by group privacy {most} of them have epsilon {most * epsilon:.4g} at delta {together:.2g}, and of more it "
        "says nothing"
        if most > 1
        else "not bounded"
    )
    return f"{words.coarser} with several {words.noun}s, each of which is a unit of its own: {said}"
