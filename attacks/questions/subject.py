"""The subject: a model answers questions about pages of members and non-members."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pfl_audit.attacks.questions.inputs import OFFERS, QuestionInputs
from pfl_audit.core.subject import AuditJob, Estimate, LazySubject

if TYPE_CHECKING:
    from pfl_audit.attacks.questions.opened import OpenedQuestions


def _open(inputs: QuestionInputs, job: AuditJob) -> OpenedQuestions:
    from pfl_audit.attacks.questions.opened import open_questions

    return open_questions(inputs, job)


class QuestionSubject(LazySubject[QuestionInputs]):
    """The subject, with an estimate of what an audit asks."""

    is_shared = True

    def estimate(self, inputs: QuestionInputs, job: AuditJob) -> Estimate:
        """Count the questions, and time a few of them."""
        from pfl_audit.attacks.questions.estimate import estimate_questions

        return estimate_questions(inputs, job)


SUBJECT = QuestionSubject(
    "questions",
    "questions about pages",
    QuestionInputs,
    OFFERS,
    ("red", "members", "non_members"),
    "documents with questions (--red, or --members and --non-members)",
    _open,
)
