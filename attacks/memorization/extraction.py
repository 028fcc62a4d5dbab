"""Extractable memorization: a value that comes out without the evidence, and not of a model that never saw the company.

What a model that never saw it gives as well is extractable by simplicity: it can be guessed. Source: Pinto, Rauschmayr,
Tramèr, Torr, Tombari, *Extracting Training Data From Document-Based VQA Models*, ICML 2024: the evidence or the whole
page is taken away, and the question put in other words.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence

import numpy as np
import pandas as pd

from pfl_audit.attacks.memorization.scores import Items, items_of, score_mean
from pfl_audit.documents.document import Document, Query
from pfl_audit.documents.keys import templates
from pfl_audit.metrics.answers import accuracy
from pfl_audit.metrics.intervals import Estimate

PARAPHRASES = 2
"""Other wordings of the same question."""
PARAPHRASED = 50
"""Most pages that are asked again in other words."""


def shares(pages: pd.DataFrame, rng: np.random.Generator) -> tuple[Estimate, Estimate, Items] | None:
    """Shares of the pages of one class with a value that the target gives and the control does not, and that both give.

    With these pages; None where there is no page that both models answered. Intervals are over resampled providers.

    Args:
        pages: ``unit``, ``acc`` and ``acc_control`` (NaN where the control said nothing).
    """
    both = pages[pages["acc_control"].notna()]
    if both.empty:
        return None
    given = both["acc"] == 1.0
    guessed = both["acc_control"] == 1.0
    rows = both.assign(extractable=(given & ~guessed).astype(float), simplicity=(given & guessed).astype(float))
    return (score_mean(rows, "extractable", rng), score_mean(rows, "simplicity", rng), items_of(rows))


def extracted(pages: pd.DataFrame) -> set[str]:
    """Names of members' pages whose value is extractable."""
    found = pages[pages["member"] & (pages["acc"] == 1.0) & (pages["acc_control"] == 0.0)]
    return set(found["page"])


def paraphrases(queries: Sequence[Query], pages: Collection[str], most: int = PARAPHRASED) -> list[Query]:
    """The questions about these pages in other words, two a page; of more pages than ``most`` some, by hash."""
    chosen = sorted((query for query in queries if query.document.id in pages), key=lambda query: _hash(query.id))
    asked = []
    for query in chosen[:most]:
        others = sorted((one for one in templates(query.key) if one != query.question), key=_hash)
        start = int(_hash(query.id), 16) % len(others)
        for number in range(PARAPHRASES):
            question = others[(start + number) % len(others)]
            asked.append(Query(f"{query.id}/again/{number}", query.document, question, query.answers, query.key))
    return asked


def kept(asked: Sequence[Query], answers: Mapping[str, str]) -> pd.DataFrame:
    """Whether the value comes out however it is asked for: ``unit`` and ``kept`` (0 or 1), a row a page."""
    rows = [
        (query.document.id, query.document.unit, accuracy(answers[query.id], query.answers))
        for query in asked
        if query.id in answers
    ]
    pages = pd.DataFrame(rows, columns=["page", "unit", "kept"]).groupby("page", sort=False, as_index=False)
    return pages.agg({"unit": "first", "kept": "min"})


def blank_questions(queries: Sequence[Query]) -> dict[str, Query]:
    """Each wording once, about a page without words and without a picture; wording to question."""
    page = Document("blank_0", "", (), np.zeros((0, 4), dtype=np.float32))
    return {
        question: Query(f"{page.id}/blank/{_hash(question)[:16]}", page, question, ("",))
        for question in sorted({query.question for query in queries})
    }


def blank_hits(
    queries: Sequence[Query], said: Mapping[str, str], before: Mapping[str, str], members: Mapping[str, bool]
) -> set[str]:
    """Providers of members whose value comes out without any page, and not of the control.

    Args:
        queries: About scrubbed pages.
        said: Wording to the target's answer about nothing.
        before: Wording to the control's answer about no page.
        members: Provider to whether it was trained on.
    """
    return {
        query.document.unit
        for query in queries
        if members.get(query.document.unit)
        and accuracy(said.get(query.question, ""), query.answers)
        and not accuracy(before.get(query.question, ""), query.answers)
    }


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()
