"""The memorization test: ask for a value that appears neither on the page nor in the OCR.

Source: privacy-aware-docvqa, section 5.1 and appendix D.1.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from typing import TYPE_CHECKING, Final

from pydantic import Field

from pfl_audit.core.attack import CheckSpec
from pfl_audit.core.settings import Settings
from pfl_audit.documents.keys import PROVIDER_KEYS
from pfl_audit.documents.scrubbing import THRESHOLD
from pfl_audit.models.family import Capability

if TYPE_CHECKING:
    from pfl_audit.attacks.questions.context import QuestionContext
    from pfl_audit.core.results import Check
    from pfl_audit.documents.corpus import Corpus


class MemorizationSettings(Settings):
    """Settings of the memorization test (privacy-aware-docvqa, section 5.1)."""

    threshold: float = Field(
        default=THRESHOLD, ge=0.5, le=1.0, description="Similarity from which words count as the value."
    )
    evidence_pages: int = Field(
        default=200, ge=0, description="Scrubbed pages of a key that are kept whole, privately."
    )
    shown_pages: int = Field(default=4, ge=0, le=50, description="Of these pages, how many the report shows.")


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


class MemorizationAttack:
    """One check a key, the unprompted-disclosure test, and how well known companies are read."""

    name = "memorization"
    subject = "questions"
    specs = (*KEYS, UNPROMPTED, GENERALISATION)
    Settings = MemorizationSettings

    def questions(self, checks: Collection[str], red: Corpus) -> dict[str, int]:
        """Each page once a key, the unprompted questions, and every question of the corpus."""
        from pfl_audit.attacks.memorization.unprompted import PAGES_PER_PROVIDER, QUESTIONS_PER_PAGE, asked_keys

        found = {spec.id.partition(".")[2]: len(red.documents) for spec in KEYS if spec.id in checks}
        if UNPROMPTED.id in checks:
            pages = Counter(page.provider for page in red.documents)
            asked = sum(min(PAGES_PER_PROVIDER, pages[name]) for name in red.non_members())
            found["unprompted"] = asked * len(asked_keys(None)) * QUESTIONS_PER_PAGE
        if GENERALISATION.id in checks:
            found["questions"] = len(red.queries)
        return found

    def run(self, context: QuestionContext, settings: MemorizationSettings) -> list[Check]:
        """Run the checks that were chosen, key by key."""
        from pfl_audit.attacks.memorization.disclosure import unprompted
        from pfl_audit.attacks.memorization.generalisation import generalisation
        from pfl_audit.attacks.memorization.recall import recall

        checks = [recall(context, spec, settings) for spec in KEYS if spec.id in context.checks]
        if UNPROMPTED.id in context.checks:
            checks.append(unprompted(context, UNPROMPTED))
        if GENERALISATION.id in context.checks:
            checks.append(generalisation(context))
        return checks


ATTACK = MemorizationAttack()
