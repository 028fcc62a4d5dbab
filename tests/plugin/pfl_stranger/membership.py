"""A membership attack with a setting: members are the providers whose answers repeat the accepted answer."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
from pydantic import Field

from pfl_audit.attacks.questions.context import QuestionContext
from pfl_audit.core.attack import CheckSpec
from pfl_audit.core.metric import build_metric
from pfl_audit.core.results import Check, Finding
from pfl_audit.core.review import Review
from pfl_audit.core.settings import Settings
from pfl_audit.models.protocol import Capability

REVIEW = Review(
    question="Does the model echo?",
    classes=("exfiltration",),
    access="answers",
    obtains="utility",
    atlas=("AML.T0025",),
)
ECHO = CheckSpec("echo.answers", "Echoed answers", frozenset({Capability.ANSWER}), review=REVIEW)


class EchoSettings(Settings):
    """Settings of the attack."""

    bound: float = Field(default=1.5, gt=0, description="Epsilon that is printed.")


class EchoAttack:
    """Counts the right answers of every provider."""

    name = "echo"
    subject = "questions"
    specs = (ECHO,)
    Settings = EchoSettings

    def run(self, context: QuestionContext, settings: EchoSettings) -> list[Check]:
        """Ask every question once."""
        answers = context.target.ask(context.red.queries, "questions")
        right = defaultdict(list)
        for query in context.red.queries:
            if query in answers:
                right[query.document.provider].append(answers[query].answer in query.answers)
        share = float(np.mean([np.mean(values) for values in right.values()]))
        metrics = [
            build_metric("epsilon lower bound", settings.bound),
            build_metric("answers right", share, format="percent", n=len(right)),
        ]
        finding = Finding(level="none", text="Answers were counted.", remedy="None.")
        return [ECHO.ran(metrics=metrics, finding=finding, settings=settings.model_dump())]


ATTACK = EchoAttack()
