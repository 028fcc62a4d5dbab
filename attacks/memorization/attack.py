"""The memorization test: ask for a value that appears neither on the page nor in the OCR.

Source: privacy-aware-docvqa, section 5.1 and appendix D.1.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from pfl_audit.attacks.memorization.specs import GENERALISATION, GUESSES, KEYS, UNPROMPTED, MemorizationSettings
from pfl_audit.documents.keys import NAMES, PROVIDER_KEYS
from pfl_audit.documents.units import DOCUMENT

if TYPE_CHECKING:
    from pfl_audit.attacks.questions.context import QuestionContext
    from pfl_audit.core.results import Check
    from pfl_audit.documents.corpus import Corpus


class MemorizationAttack:
    """One check a key, values put back within k guesses, unprompted disclosure, and reading of known companies."""

    name = "memorization"
    subject = "questions"
    specs = (*KEYS, GUESSES, UNPROMPTED, GENERALISATION)
    Settings = MemorizationSettings

    def questions(self, checks: Collection[str], red: Corpus, settings: MemorizationSettings) -> dict[str, int]:
        """Each page once a key, and as often for guesses, the unprompted questions, and all questions of the corpus."""
        import numpy as np

        from pfl_audit.attacks.memorization.unprompted import unprompted_questions

        found = {spec.id.partition(".")[2]: len(red.documents) for spec in KEYS if spec.id in checks}
        if GUESSES.id in checks:
            keys = NAMES if red.unit == DOCUMENT.name else PROVIDER_KEYS
            found["likeliest answers"] = len(red.documents) * len(keys)
        if UNPROMPTED.id in checks:
            # At most: a training corpus decides which of the keys are asked for.
            found["unprompted"] = len(unprompted_questions(red, PROVIDER_KEYS, np.random.default_rng(0)))
        if GENERALISATION.id in checks:
            found["questions"] = len(red.queries)
        return found

    def run(self, context: QuestionContext, settings: MemorizationSettings) -> list[Check]:
        """Run the checks that were chosen, key by key."""
        from pfl_audit.attacks.memorization.disclosure import unprompted
        from pfl_audit.attacks.memorization.generalisation import generalisation
        from pfl_audit.attacks.memorization.guesses import guesses
        from pfl_audit.attacks.memorization.recall import recall
        from pfl_audit.attacks.memorization.secrets import training_texts

        keys = [spec for spec in KEYS if spec.id in context.checks]
        trained = training_texts(context.red, context.blue) if keys else None
        checks = [recall(context, spec, settings, trained) for spec in keys]
        if GUESSES.id in context.checks:
            checks.append(guesses(context, settings))
        if UNPROMPTED.id in context.checks:
            checks.append(unprompted(context))
        if GENERALISATION.id in context.checks:
            checks.append(generalisation(context))
        return checks


ATTACK = MemorizationAttack()
