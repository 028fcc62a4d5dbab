"""Features in which the classes differ: which words, dates, layouts and pictures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from scipy.stats import rankdata

from pfl_audit.fitness.document_features import DocumentFeatures
from pfl_audit.metrics.arrays import Bools, Floats
from pfl_audit.metrics.permutation import permute

LEVEL: Final = 0.05
_PERMUTATIONS: Final = 1000


@dataclass(frozen=True)
class Difference:
    """A feature that differs between the classes.

    Attributes:
        kind: Kind of feature (``document_features.KINDS``).
        name: Column of the kind; of ``words`` the word.
        members: Mean over the members that have it; of words the share of members on whose pages the word is.
        others: The same over the non-members.
        auc: AUC of the feature alone, 0 to 1; below 0.5 where non-members have more.
        p_value: Permutation p-value, two-sided, adjusted for the number of features (max-T).
    """

    kind: str
    name: str
    members: float
    others: float
    auc: float
    p_value: float


def differences(features: DocumentFeatures, labels: Bools, rng: np.random.Generator) -> list[Difference]:
    """Features that are significant at LEVEL over all features, the largest difference first.

    Args:
        features: One row a provider.
        labels: bool (n,), both classes.
    """
    columns = [
        (kind, str(name), table[name].to_numpy()) for kind, table in features.tables.items() for name in table.columns
    ]
    columns += [("words", word, column) for word, column in zip(features.vocabulary, features.words.T, strict=True)]
    ranks = np.array([_ranks(values) for _, _, values in columns])
    if not len(ranks):
        return []
    found = permute(np.vstack([ranks, -ranks]), labels, rng, _PERMUTATIONS)
    p_values = np.minimum(*np.split(found.p_values, 2))
    auc = 0.5 + found.gaps[: len(columns)] / len(labels)
    significant = [number for number in np.argsort(-np.abs(auc - 0.5), kind="stable") if p_values[number] <= LEVEL]
    return [
        Difference(
            kind,
            name,
            _typical(kind, values[labels]),
            _typical(kind, values[~labels]),
            float(auc[number]),
            float(p_values[number]),
        )
        for number in significant
        for kind, name, values in [columns[number]]
    ]


def _ranks(values: Floats) -> Floats:
    known = values[np.isfinite(values)]
    ranks: Floats = rankdata(np.where(np.isfinite(values), values, np.median(known) if len(known) else 0.0))
    return ranks


def _typical(kind: str, values: Floats) -> float:
    known = values[np.isfinite(values)]
    if not len(known):
        return float("nan")
    return float((known > 0).mean() if kind == "words" else known.mean())
