"""CPU seconds and memory of finding near-duplicates: python -m tests.bench.near_duplicates [PAGES].

Prints a table of corpora of PAGES pages (10,000 by default) of 260 to 400 words, and of a tenth as many. Each is
measured in a process of its own: groups of near-duplicates, and a near-duplicate of each page of one half in the other.
"""

from __future__ import annotations

import random
import resource
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import numpy as np

from pfl_audit.documents.near_duplicates import word_pairs
from pfl_audit.documents.similar_sets import last_similar, similar_groups

THRESHOLD = 0.7
WORDS = [f"w{number}" for number in range(20_000)]
FORM = random.Random(0).choices(WORDS, k=400)


def alike(pages: int) -> Iterator[list[str]]:
    """One page; each copy has one word in 60 of its own."""
    for page in range(pages):
        yield [word if (at + page) % 60 else f"v{page}" for at, word in enumerate(FORM)]


def different(pages: int) -> Iterator[list[str]]:
    """Random words."""
    rng = random.Random(1)
    for _ in range(pages):
        yield rng.choices(WORDS, k=300)


def templates(pages: int) -> Iterator[list[str]]:
    """Fifty templates; one word in six of a page is its own, so that pages of a template are near-duplicates."""
    rng = random.Random(1)
    starts = [rng.choices(WORDS, k=250) for _ in range(50)]
    for page in range(pages):
        yield starts[page % 50] + rng.choices(WORDS, k=50)


def boilerplate(pages: int) -> Iterator[list[str]]:
    """The same 200 words on every page, and 60 that no other page has."""
    for page in range(pages):
        yield FORM[:200] + [f"v{page}-{at}" for at in range(60)]


def values(pages: int) -> Iterator[list[str]]:
    """The same 200 words on every page, and 30 fields with one of 40 values each."""
    rng = random.Random(1)
    for _ in range(pages):
        yield FORM[:200] + [word for at in range(30) for word in (f"l{at}", rng.choice(WORDS[:40]))]


CORPORA: dict[str, Callable[[int], Iterator[list[str]]]] = {
    corpus.__name__: corpus for corpus in (alike, different, templates, boilerplate, values)
}


def measured(name: str, pages: int) -> str:
    """One row."""
    words = [[*map(sys.intern, page)] for page in CORPORA[name](pages)]
    held = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    started = time.process_time()
    index = word_pairs(words)
    groups = len(np.unique(similar_groups(index, THRESHOLD)))
    asked, among = np.arange(pages // 2), np.arange(pages // 2, pages)
    partners = sum(found >= 0 for found in last_similar(index, asked, among, THRESHOLD))
    seconds = time.process_time() - started
    peak = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - held) / 1024
    return f"| {name} | {pages:,} | {seconds:.1f} | {peak:.0f} | {groups:,} | {partners:,} |"


def main() -> None:
    """Print the table."""
    pages = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    print("| pages | number | CPU s | MB beside the words | groups | pages with a near-duplicate in the other half |")
    print("| --- | --- | --- | --- | --- | --- |", flush=True)
    for name in CORPORA:
        for number in (pages // 10, pages):
            with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
                print(pool.submit(measured, name, number).result(), flush=True)


if __name__ == "__main__":
    main()
