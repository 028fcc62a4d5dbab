"""One page of each trained company and one of each other company, for private_learning_attacks.sh.

Usage: python docs/results/one_page_each.py CORPUS OUT, with CORPUS from ``pfl-audit data make``; writes OUT/trained,
pages of the training set, and OUT/untrained, pages of companies that are not in it, as many of each: the first page of
a company, of companies in the order of a seeded permutation.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np

from pfl_audit.documents.corpus import Corpus
from pfl_audit.documents.document import Membership
from pfl_audit.documents.readers import open_corpus
from pfl_audit.documents.writers import write_jsonl


def first_pages(corpus: Corpus) -> list[str]:
    """File of the first page of each company, in the order of the companies' names."""
    return [min(query.document.file for query in queries) for _, queries in sorted(corpus.by_unit().items())]


def main() -> None:
    """As many pages of the one kind as of the other."""
    source, out = map(Path, sys.argv[1:3])
    trained = open_corpus(source, "blue").where(lambda query: "train" in query.document.split)
    red = open_corpus(source, "red")
    untrained = red.where(lambda query: red.membership[query.document.provider] is Membership.NON_MEMBER)
    pages = {"trained": first_pages(trained), "untrained": first_pages(untrained)}
    count = min(map(len, pages.values()))
    rng = np.random.default_rng(0)
    for corpus, (name, files) in zip((trained, untrained), pages.items(), strict=True):
        kept = {files[place] for place in rng.permutation(len(files))[:count]}
        part = corpus.where(lambda query, kept=kept: query.document.file in kept)
        documents = (replace(query.document, split="train", client=0) for query in part.queries)
        queries = tuple(replace(query, document=one) for query, one in zip(part.queries, documents, strict=True))
        write_jsonl(Corpus(queries), out / name)
        print(f"{name}: {len(kept)} pages, {len(queries)} questions")


if __name__ == "__main__":
    main()
