"""Evidence pages of the memorization test: complete ones in the private folder, drawings in a masked report."""

from __future__ import annotations

from pfl_audit.attacks.questions.context import QuestionContext
from pfl_audit.attacks.questions.engine import Answers
from pfl_audit.core.drawing import CAPTION, drawn_page, framed
from pfl_audit.core.fields import Cell
from pfl_audit.core.redaction import Redactor
from pfl_audit.core.results import Evidence
from pfl_audit.documents.document import Membership, Query
from pfl_audit.documents.scrubbing.questions import ScrubbedQuestions
from pfl_audit.errors import UnanswerableError
from pfl_audit.metrics.answers import accuracy, anls


def keep_evidence(
    context: QuestionContext,
    hide: Redactor,
    kept: int,
    shown: int,
    test: ScrubbedQuestions,
    answers: Answers,
    before: Answers | None,
) -> list[Evidence]:
    """Keep scrubbed pages, right answers first, and show the first few.

    Args:
        hide: With the pseudonyms of the check.
        kept: Number of pages that are kept.
        shown: Number of these pages that the report shows.
        test: The questions that were put.
        answers: Answers of the model under audit.
        before: Answers of the pre-trained model, or None.
    """

    def rank(query: Query) -> tuple[bool, bool, float, str]:
        """Right answers before wrong ones, members first, the most confident first; never by name."""
        right = bool(accuracy(answers[query].answer, query.answers))
        member = context.red.label(query.document.unit) is Membership.MEMBER
        return not right, not member, -(answers[query].confidence or 0.0), hide.order(query.id)

    evidence: list[Evidence] = []
    for number, query in enumerate(sorted((query for query in test.queries if query in answers), key=rank)[:kept]):
        image, name = query.document.image, f"{test.key}-{number:03d}"
        if image is None:
            continue
        try:
            page = image.open()
        except UnanswerableError:
            continue
        context.evidence.keep_page(name, page)
        if len(evidence) == shown or not accuracy(answers[query].answer, query.answers):
            continue
        facts: dict[str, Cell] = {
            "provider": hide.name(query.document.provider),
            "class": str(context.red.label(query.document.unit)),
            "question": query.question if hide.reveal else query.key,
            "taken off the page": hide.value(query.answers[0], query.key),
            "the model's answer": _answer(hide, answers[query].answer, query),
            "confidence": hide.share(answers[query].confidence),
        }
        if before is not None and query in before:
            facts["the pre-trained model's answer"] = _answer(hide, before[query].answer, query)
        if not hide.reveal:
            facts["picture"] = CAPTION
        picture = context.evidence.show(name, framed(page, image.blurred), drawn_page())
        evidence.append(Evidence(title="The page, and what the model answered", facts=facts, picture=picture))
    return evidence


def _answer(hide: Redactor, said: str, query: Query) -> str:
    """The answer; masked, whether it is right or similar."""
    if hide.reveal:
        return hide.value(said)
    right = "right" if accuracy(said, query.answers) else "similar" if anls(said, query.answers) else "another"
    return f"{hide.value(said, query.key)}, {right}"
