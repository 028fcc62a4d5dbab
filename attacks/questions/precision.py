"""Answers in low precision, compared with those in float32 on a sample of the questions of a run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from pfl_audit.attacks.questions.engine import Answers
from pfl_audit.documents.corpus import Corpus
from pfl_audit.documents.document import Query
from pfl_audit.files import sha256_json
from pfl_audit.models.family import FLOATS, Precision

SAMPLE: Final = 32
"""Questions that are answered twice."""


@dataclass(frozen=True)
class Difference:
    """What low precision changes.

    Attributes:
        role: Of the model in the audit, such as ``target``.
        sampled: Questions that were answered in both.
        equal: Of these, those with equal answers.
        loss: Largest difference in loss, nats a token; None for a model without losses.
    """

    role: str
    sampled: int
    equal: int
    loss: float | None

    def line(self) -> str:
        """The difference for the report."""
        share = f"{self.equal} of {self.sampled} answers equal ({100 * self.equal / max(1, self.sampled):.1f} %)"
        if self.loss is None:
            return f"{self.role}: {share}"
        return f"{self.role}: {share}, losses differ by at most {self.loss:.2g} nats a token"


def sample_of(corpus: Corpus) -> list[Query]:
    """Questions that are answered twice: the same for a corpus, whatever the order of its questions."""
    return sorted(corpus.queries, key=lambda query: sha256_json([query.document.digest, query.question, query.id]))[
        :SAMPLE
    ]


def difference_of(role: str, sample: Sequence[Query], exact: Answers, low: Answers) -> Difference:
    """Answers of one model to a sample, in float32 and in low precision; questions without an answer are left out."""
    pairs = [(exact[query], low[query]) for query in sample if query in exact and query in low]
    losses = [abs(one.loss - other.loss) for one, other in pairs if one.loss is not None and other.loss is not None]
    equal = sum(one.answer == other.answer for one, other in pairs)
    return Difference(role, len(pairs), equal, max(losses, default=None))


def facts_of(precision: Precision, differences: Sequence[Difference]) -> dict[str, str]:
    """Lines of the report's scope."""
    if precision == "fp32":
        return {}
    against = "; ".join(difference.line() for difference in differences)
    return {"Precision": f"{FLOATS[precision]}; against float32 on a sample of the questions: {against}"}
