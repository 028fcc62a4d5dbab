"""Classes of documents that differ in nothing: how often the blind baseline or `data check` tells them apart."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path

import numpy as np

from pfl_audit.core.power import NEEDED
from pfl_audit.documents.readers import open_corpus
from pfl_audit.fitness.blind import OutOfFold, draw_folds, permutation_p_value
from pfl_audit.fitness.classes import compare_classes, describe, labels_of
from pfl_audit.fitness.document_features import document_features
from pfl_audit.fitness.kernel_factors import narrow
from pfl_audit.fitness.page_look import PageLooks
from pfl_audit.metrics.arrays import Bools, Floats
from pfl_audit.progress import Silent
from tests.bench.rates.engine import Design, design
from tests.fitness.corpora import drawn, with_pictures
from tests.fitness.test_blind import features_of, joint

ALPHA = 0.05
APART = {"apart": ALPHA}
Values = Callable[[np.random.Generator], Floats]
NOISE: dict[str, tuple[int, int, Values]] = {
    "equal": (20, 20, lambda rng: rng.normal(size=(40, 6))),
    "10/90, heavy tails": (5, 45, lambda rng: rng.standard_cauchy(size=(50, 6))),
    "ties": (20, 20, lambda rng: rng.integers(0, 2, size=(40, 3)).astype(float)),
    "missing": (15, 15, lambda rng: np.where(rng.random((30, 4)) < 0.4, np.nan, rng.normal(size=(30, 4)))),
    "eight providers": (4, 4, lambda rng: rng.normal(size=(8, 4))),
}


def noise(case: str, audit: int) -> str:
    """Whether features that are noise tell the classes apart."""
    members, others, values = NOISE[case]
    rng = np.random.default_rng(audit)
    factor = joint(features_of({"counts": values(rng)}))
    return _told_apart(factor, np.arange(members + others) < members, rng)


@cache
def _embedded() -> Floats:
    red = open_corpus(Path(__file__).parents[3] / "fixtures/red", "red")
    return narrow(joint(document_features(red, Silent())))


def shuffled(members: int, audit: int) -> str:
    """Result for the embedded documents, of classes that were drawn at random."""
    rng = np.random.default_rng([members, audit])
    factor = _embedded()
    return _told_apart(factor, rng.permutation(len(factor)) < members, rng)


def _told_apart(factor: Floats, labels: Bools, rng: np.random.Generator) -> str:
    regressions = OutOfFold.fitted(factor, draw_folds(len(labels), rng))
    return "apart" if permutation_p_value(regressions, labels, rng, 99) <= ALPHA else "alike"


def _prepare_check() -> Callable[[int], str]:
    rng = np.random.default_rng(4)
    with tempfile.TemporaryDirectory() as folder:
        corpus = with_pictures(drawn(2 * NEEDED, rng), Path(folder), rng, differ=False)
        looks = PageLooks()
        for page in corpus.documents:
            looks.unusable(page)
        described = describe(corpus, looks, Silent())
        labels = labels_of(corpus, described)

    def check(number: int) -> str:
        drawn_anew = np.random.default_rng([4, number])
        found = compare_classes(described, drawn_anew.permutation(labels), drawn_anew, 199, explain=False)
        return "apart" if found.significant else "alike"

    return check


DESIGNS: tuple[Design, ...] = (
    *(design(f"documents, null: {case}", partial(noise, case), APART) for case in NOISE),
    *(design(f"documents, null: embedded, {size} of 200", partial(shuffled, size), APART) for size in (100, 20)),
    Design("data check, null: random classes", 200, _prepare_check, APART),
)
