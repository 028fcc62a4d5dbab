"""The subject: a model answers questions about pages of member and non-member providers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pfl_audit.attacks.questions.inputs import OFFERS, QuestionInputs

if TYPE_CHECKING:
    from pfl_audit.attacks.questions.opened import OpenedQuestions
    from pfl_audit.core.subject import AuditJob


class Questions:
    """Questions about pages."""

    name = "questions"
    title = "questions about pages"
    Inputs = QuestionInputs
    offers = OFFERS

    def missing(self, inputs: QuestionInputs) -> str | None:
        """The documents, unless they are given."""
        return "documents with questions (--red)" if inputs.red is None else None

    def open(self, inputs: QuestionInputs, job: AuditJob) -> OpenedQuestions:
        """Open the models and the documents; see `opened.open_questions`."""
        from pfl_audit.attacks.questions.opened import open_questions

        return open_questions(inputs, job)


SUBJECT = Questions()
