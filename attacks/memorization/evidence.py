"""Pages that show what came back: kept whole privately, masked in the report."""

from __future__ import annotations

from pfl_audit.audit.attack import QuestionContext
from pfl_audit.audit.engine import Answers
from pfl_audit.audit.results import Evidence
from pfl_audit.documents.document import Membership, Query
from pfl_audit.documents.scrubbed import ScrubbedQuestions
from pfl_audit.errors import UnanswerableError
from pfl_audit.metrics.answers import accuracy


def keep_evidence(
    context: QuestionContext, kept: int, shown: int, test: ScrubbedQuestions, answers: Answers, before: Answers | None
) -> list[Evidence]:
    """Keep scrubbed pages, the most telling first, and show the first few.

    Args:
        context: Of the audit.
        kept: How many pages are kept.
        shown: How many of them the report shows.
        test: The questions that were put.
        answers: Of the model under audit.
        before: Of the pre-trained model, or None.
    """
    ranked = sorted(
        (query for query in test.queries if query in answers), key=lambda query: _rank(context, query, answers)
    )
    evidence: list[Evidence] = []
    for number, query in enumerate(ranked[:kept]):
        image = query.document.image
        if image is None:
            continue
        name = f"{test.key}-{number:03d}"
        try:
            page = image.open()
        except UnanswerableError:
            continue
        context.evidence.keep_page(name, page)
        if len(evidence) < shown and accuracy(answers[query].answer, query.answers):
            picture = context.evidence.show_page(name, page, image.blurred)
            evidence.append(_describe(context, query, answers, before, picture))
    return evidence


def _rank(context: QuestionContext, query: Query, answers: Answers) -> tuple[bool, bool, float, str]:
    """Right answers before wrong ones, members first, the most confident first."""
    response = answers[query]
    member = context.red.label(query.document.provider) is Membership.MEMBER
    return (not accuracy(response.answer, query.answers), not member, -(response.confidence or 0.0), query.id)


def _describe(
    context: QuestionContext, query: Query, answers: Answers, before: Answers | None, picture: str
) -> Evidence:
    hide = context.redactor
    response = answers[query]
    facts: dict[str, str | int | float | None] = {
        "provider": hide.name(query.document.provider),
        "class": str(context.red.label(query.document.provider)),
        "question": query.question,
        "taken off the page": hide.value(query.answers[0]),
        "the model's answer": hide.value(response.answer),
        "confidence": None if response.confidence is None else round(response.confidence, 3),
    }
    if before is not None and query in before:
        facts["the pre-trained model's answer"] = hide.value(before[query].answer)
    return Evidence(title="The page, and what the model answered", facts=facts, picture=picture)
