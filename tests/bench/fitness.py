"""How often a corpus with random classes is named unfit: python -m tests.bench.fitness RED [LABELLINGS].

The providers of RED are sorted into two classes of the same sizes at random, LABELLINGS times (1,000 by default), and
compared as ``data check`` does, with 499 permutations a test. Prints in how many labellings each test, and any of
them, is significant.
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import numpy as np

from pfl_audit.cli.console import make_progress
from pfl_audit.documents.readers import open_corpus
from pfl_audit.fitness.classes import TESTS, compare_classes, describe, labels_of
from pfl_audit.fitness.page_look import PageLooks

PERMUTATIONS = 499


def main(red: Path, labellings: int) -> None:
    """Print the shares."""
    progress = make_progress(quiet=False)
    corpus, looks = open_corpus(red, "red"), PageLooks()
    for page in corpus.documents:
        looks.unusable(page)
    described = describe(corpus, looks, progress)
    labels = labels_of(corpus, described)
    found: Counter[str] = Counter()
    with progress.task("labellings", labellings) as task:
        for number in range(labellings):
            rng = np.random.default_rng([1, number])
            drawn = compare_classes(described, rng.permutation(labels), rng, PERMUTATIONS, explain=False)
            found.update(drawn.significant)
            found["any"] += bool(drawn.significant)
            task.advance()
    for name in (*TESTS, "any"):
        print(f"{name:>9}  {found[name]} of {labellings}")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 1000)
