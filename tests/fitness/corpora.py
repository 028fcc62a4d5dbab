"""Small corpora whose classes differ in one thing, or in nothing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
from PIL import Image

from pfl_audit.documents.corpus import Corpus
from pfl_audit.documents.document import Document, Membership, Query, as_boxes
from pfl_audit.documents.images import PageImage

SIDES = (Membership.MEMBER, Membership.NON_MEMBER)


def corpus_of(pages: list[tuple[Document, Membership]]) -> Corpus:
    queries = tuple(Query(f"{page.id}/total", page, "total?", (page.words[-1],), "total_amount") for page, _ in pages)
    return Corpus(queries, {page.provider: side for page, side in pages})


def page_of(rng: np.random.Generator, name: str, provider: str, year: int) -> Document:
    """A page of random words, with a date and a sum."""
    words = [f"w{''.join(chr(97 + n) for n in rng.integers(0, 6, 2))}" for _ in range(20)]
    month = int(rng.integers(1, 13))
    words += [provider, f"{year}-{month:02d}-07", f"{rng.integers(100, 999)}.{rng.integers(10, 99)}"]
    top = 0.9 * rng.random(len(words))
    boxes = [[0.1, at, 0.3, at + 0.02] for at in top]
    return Document(name, provider, tuple(words), as_boxes(boxes, len(words)))


def drawn(providers: int, rng: np.random.Generator, years: tuple[int, int] | None = None) -> Corpus:
    """Providers of two pages, half of them members.

    Args:
        providers: Number of providers of both classes together.
        years: Year of the members' pages and of the others'; drawn where there is none.
    """
    pages = []
    for number in range(providers):
        for at in range(2):
            year = years[number % 2] if years else int(rng.integers(2019, 2021))
            page = page_of(rng, f"d{number}-{at}_1", f"Company {chr(97 + number % 26) * 3}{number}", year)
            pages.append((page, SIDES[number % 2]))
    return corpus_of(pages)


def with_pictures(corpus: Corpus, folder: Path, rng: np.random.Generator, *, differ: bool) -> Corpus:
    """The corpus with page images of noise; those of members have a grey bar at the top if they differ."""
    queries = []
    for number, query in enumerate(corpus.queries):
        pixels = rng.integers(150, 256, (64, 48), dtype=np.uint8)
        if differ and corpus.label(query.document.provider) is Membership.MEMBER:
            pixels[:12] //= 2
            pixels[-12:] = 255 - (255 - pixels[-12:]) // 2
        path = folder / f"{number}.png"
        Image.fromarray(pixels).convert("RGB").save(path)
        queries.append(replace(query, document=replace(query.document, image=PageImage(path))))
    return replace(corpus, queries=tuple(queries))
