"""The checks of the memorization test."""

from __future__ import annotations

from typing import Final

from pfl_audit.core.attack import CheckSpec
from pfl_audit.documents.keys import PROVIDER_KEYS
from pfl_audit.models.family import Capability

_THREAT = {
    "knows": "a page of the company on which the value cannot be read",
    "sees": "the model's answer to a question for that value",
    "does": "reads the value off the answer, although the page does not give it",
}
_UNPROMPTED_THREAT = {
    "knows": "pages of companies that were not trained on, which hold no such value",
    "sees": "the model's answers to questions for values of the company",
    "does": "collects values that belong to companies in the training set",
}
KEYS: Final = tuple(
    CheckSpec(
        f"memorization.{key}", f"Memorization of {key.replace('_', ' ')}", frozenset({Capability.ANSWER}), _THREAT
    )
    for key in PROVIDER_KEYS
)
UNPROMPTED: Final = CheckSpec(
    "memorization.unprompted",
    "Unprompted disclosure of values of trained companies",
    frozenset({Capability.ANSWER, Capability.LIVE}),
    _UNPROMPTED_THREAT,
)
GENERALISATION = CheckSpec(
    "memorization.generalisation",
    "Utility: reading of new pages, known companies against others",
    frozenset({Capability.ANSWER}),
    {
        "knows": "new pages of a company, none of which was trained on",
        "sees": "the model's answers to questions about them",
        "does": "compares how well it reads them with how well it reads pages of other companies",
    },
)
