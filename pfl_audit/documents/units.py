"""Units of privacy: what an audit decides membership of, and what its intervals and permutations move as a whole."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

UnitName = Literal["provider", "document", "person"]


@dataclass(frozen=True)
class Unit:
    """A unit of privacy, and the words for it in sentences.

    Attributes:
        name: Name of the unit in options and results, singular.
        many: Plural of the name.
        noun: Noun in running text, singular.
        nouns: Its plural.
        possessed: What of a unit may have been trained on, in the plural.
        asked: What an attacker has of one unit.
    """

    name: UnitName
    many: str
    noun: str
    nouns: str
    possessed: str
    asked: str


PROVIDER: Final = Unit(
    "provider", "providers", "company", "companies", "companies' documents", "new documents of the company"
)
DOCUMENT: Final = Unit("document", "documents", "document", "documents", "documents", "the document")
PERSON: Final = Unit("person", "persons", "person", "persons", "persons' documents", "documents of the person")
UNITS: Final[dict[UnitName, Unit]] = {one.name: one for one in (PROVIDER, DOCUMENT, PERSON)}
