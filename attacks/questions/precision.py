"""Answers in low precision, compared with those in float32 on a sample of the questions of a run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pfl_audit.attacks.questions.engine import Answers
from pfl_audit.documents.corpus import Corpus
from pfl_audit.documents.document import Query
from pfl_audit.files import sha256_json
from pfl_audit.models.family import FLOATS, Precision

SAMPLE: Final = 32
"""Questions that are answered twice."""


def sample_of(corpus: Corpus) -> list[Query]:
    """Questions that are answered twice: the same for a corpus, whatever the order of its questions."""
    return sorted(corpus.queries, key=lambda query: sha256_json([query.document.digest, query.question, query.id]))[
        :SAMPLE
    ]


def difference_of(role: str, sample: Sequence[Query], exact: Answers, low: Answers) -> str:
    """Differences of the answers of one model to a sample, in low precision and in float32, as a sentence.

    Questions without an answer are left out; losses are in nats a token, and left out of a model without them.

    Args:
        role: Role of the model in the audit, such as ``target``.
    """
    pairs = [(exact[query], low[query]) for query in sample if query in exact and query in low]
    losses = [abs(one.loss - other.loss) for one, other in pairs if one.loss is not None and other.loss is not None]
    equal = sum(one.answer == other.answer for one, other in pairs)
    share = f"{role}: {equal} of {len(pairs)} answers equal ({100 * equal / max(1, len(pairs)):.1f} %)"
    return f"{share}, losses differ by at most {max(losses):.2g} nats a token" if losses else share


def facts_of(precision: Precision, differences: Sequence[str]) -> dict[str, str]:
    """Lines of the report's scope."""
    if precision == "fp32":
        return {}
    return {"Precision": f"{FLOATS[precision]}; against float32 on a sample of the questions: {'; '.join(differences)}"}
