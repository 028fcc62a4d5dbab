"""Draw trained, untrained and other documents of the same providers, for docmia.sh and families.sh.

Usage: python docs/results/divide_documents.py CORPUS OUT SEED, with CORPUS from ``pfl-audit data make``; writes
OUT/trained, OUT/untrained and OUT/other, 150 documents each. The control is trained on the other ones.
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
SIDES = ("trained", "untrained", "other")


def main() -> None:
    """A third of the documents of every provider to each side, at random."""
    source, out = map(Path, sys.argv[1:3])
    corpus = open_corpus(source, "blue").where(lambda query: "train" in query.document.split)
    rng = np.random.default_rng(int(sys.argv[3]))
    sides: tuple[list[str], ...] = tuple([] for _ in SIDES)
    for queries in corpus.by_unit().values():
        files = sorted({query.document.file for query in queries})
        drawn = [files[place] for place in rng.permutation(len(files))]
        third = len(drawn) // len(SIDES)
        for number, side in enumerate(sides):
            side.extend(drawn[number * third : (number + 1) * third])
    chosen = rng.permutation(len(sides[0]))[:EACH]
    if len(chosen) < EACH:
        sys.exit(f"the corpus has documents for {len(chosen)} of {EACH}")
    for name, side in zip(SIDES, sides, strict=True):
        kept = {side[place] for place in chosen}
        part = corpus.where(lambda query, kept=kept: query.document.file in kept)
        queries = tuple(
            replace(query, document=replace(query.document, split="blue_train", client=0)) for query in part.queries
        )
        write_jsonl(Corpus(queries), out / name)
        print(f"{name}: {len(kept)} documents of {len(part.providers)} providers, {len(queries)} questions")


if __name__ == "__main__":
    main()
