"""How a compliance review classifies a check: question, class of attack, access, and data that it obtains."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

AttackClass = Literal[
    "attribute or membership inference",
    "exfiltration",
    "regurgitation of training data",
    "model inversion",
    "reconstruction",
]
"""Classes of attacks that EDPB Opinion 28/2024 names in paragraph 55."""
Access = Literal["answers", "scores", "weights", "updates"]
"""What the attacker needs, from the least: answers to questions; confidences and losses beside them; the weights;
the updates of one client during federated training."""
Obtained = Literal["utility", "membership", "contact", "values", "documents"]
"""Kind of data that a successful attack obtains. ``utility``: how well the model reads, no value and no membership;
``membership``: that a unit was in the training data; ``contact``: names and contact details; ``values``: single values
of private documents, such as identifiers; ``documents``: what a person wrote, as a whole."""
Release = Literal["public-api", "internal", "open-weights"]
"""Who can reach the model, as its user declares: everybody by questions, staff by questions, everybody with weights."""


@dataclass(frozen=True)
class Review:
    """Classification of a check, declared by its attack.

    Attributes:
        question: Question of a reader that the check helps to answer; checks with one question share a section.
        classes: Classes of EDPB Opinion 28/2024, paragraph 55.
        access: What the attacker needs.
        obtains: Kind of data that a successful attack obtains.
        nist: Names of attacks in NIST AI 100-2.
        atlas: Identifiers of techniques in MITRE ATLAS.
    """

    question: str
    classes: tuple[AttackClass, ...]
    access: Access
    obtains: Obtained
    nist: tuple[str, ...] = ()
    atlas: tuple[str, ...] = ()
