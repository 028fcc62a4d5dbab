"""Draw a corpus of trained and untrained documents of the same providers, for docs/results/docmia.sh.

Usage: python docs/results/docmia_corpus.py CORPUS OUT, with CORPUS from ``pfl-audit data make``; writes OUT/trained and
OUT/untrained, 150 documents each.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np

from pfl_audit.documents.corpus import Corpus
from pfl_audit.documents.readers import open_corpus
from pfl_audit.documents.writers import write_jsonl

EACH = 150
SEED = 18


def main() -> None:
    """Half of the documents of every provider to one side, half to the other, at random."""
    source, out = map(Path, sys.argv[1:])
    corpus = open_corpus(source, "blue").where(lambda query: "train" in query.document.split)
    rng = np.random.default_rng(SEED)
    sides: tuple[list[str], list[str]] = ([], [])
    for queries in corpus.by_unit().values():
        files = sorted({query.document.file for query in queries})
        drawn = [files[place] for place in rng.permutation(len(files))]
        half = len(drawn) // 2
        for side, some in zip(sides, (drawn[:half], drawn[half : 2 * half]), strict=True):
            side.extend(some)
    chosen = rng.permutation(len(sides[0]))[:EACH]
    if len(chosen) < EACH:
        sys.exit(f"the corpus has documents for {len(chosen)} of {EACH}")
    for name, side in zip(("trained", "untrained"), sides, strict=True):
        kept = {side[place] for place in chosen}
        part = corpus.where(lambda query, kept=kept: query.document.file in kept)
        queries = tuple(
            replace(query, document=replace(query.document, split="blue_train", client=0)) for query in part.queries
        )
        write_jsonl(Corpus(queries), out / name)
        print(f"{name}: {len(kept)} documents of {len(part.providers)} providers, {len(queries)} questions")


if __name__ == "__main__":
    main()
