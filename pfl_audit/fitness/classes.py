"""Members and non-members compared without any model: the blind baseline, and the distance between the classes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import comb
from typing import Final

import numpy as np
from scipy.stats import rankdata

from pfl_audit.documents.corpus import Corpus
from pfl_audit.documents.document import Membership
from pfl_audit.fitness.blind import PERMUTATIONS, Blind, blind_baseline
from pfl_audit.fitness.document_features import DocumentFeatures, document_features, spread
from pfl_audit.fitness.page_look import THUMBNAIL, PageLook, PageLooks
from pfl_audit.metrics.arrays import Bools, Floats
from pfl_audit.metrics.permutation import permute
from pfl_audit.metrics.sliced_wasserstein import Distance, class_distance, principal_components
from pfl_audit.progress import Progress

COMPARED: Final = 500
"""Providers of each class that are compared; more are drawn at random. A difference that is significant among so many
has an AUC of about 0.54 at least, so that what decides is not a difference of no importance."""
BUDGET: Final = 0.05
"""Chance that a corpus whose classes were drawn at random is named unfit for a difference between them."""
TESTS: Final = ("baseline", "text", "pages")
"""Tests that share the budget (Bonferroni)."""
LEVEL: Final = BUDGET / len(TESTS)
_COMPONENTS: Final = 16
"""Principal components of an embedding."""
_DIFFERENT: Final = 0.05
"""Level of the differences of features, over all of them."""
_PERMUTATIONS: Final = 1000


@dataclass(frozen=True)
class Described:
    """Providers by their documents alone; membership is not used.

    Attributes:
        features: One row a provider.
        embeddings: ``text`` and, where there are images, ``pages``: float (providers, at most 16).
    """

    features: DocumentFeatures
    embeddings: Mapping[str, Floats]


@dataclass(frozen=True)
class ClassComparison:
    """How well the classes are separated without any model.

    Attributes:
        members: Members that were compared.
        others: Non-members that were compared.
        blind: The blind baseline.
        distances: ``text`` and ``pages`` to the distance between the classes.
        differences: Features that differ, the largest difference first.
    """

    members: int
    others: int
    blind: Blind
    distances: Mapping[str, Distance]
    differences: tuple[Difference, ...]

    @property
    def significant(self) -> tuple[str, ...]:
        """Tests that are significant at LEVEL."""
        p_values = {"baseline": self.blind.p_value} | {name: one.p_value for name, one in self.distances.items()}
        return tuple(name for name in TESTS if p_values.get(name, 1.0) <= LEVEL)


def is_testable(members: int, others: int) -> bool:
    """Whether a permutation test of classes of these sizes can be significant at LEVEL."""
    return comb(members + others, members) >= 1 / LEVEL


def sample(corpus: Corpus, rng: np.random.Generator) -> Corpus:
    """The corpus with COMPARED members and COMPARED non-members at most, and no provider of unknown membership."""
    kept = {
        str(name)
        for names in (corpus.members(), corpus.non_members())
        for name in (rng.choice(names, COMPARED, replace=False) if len(names) > COMPARED else names)
    }
    return corpus.where(lambda query: query.document.unit in kept)


def describe(corpus: Corpus, looks: PageLooks, progress: Progress) -> Described:
    """Describe the providers of a corpus.

    Args:
        corpus: At least one question.
        looks: Looks of its pages.
    """
    features = document_features(corpus, progress, looks.of)
    embeddings = {"text": principal_components(features.words, _COMPONENTS)} if features.words.size else {}
    groups = [{query.document.id: query.document for query in queries} for queries in corpus.by_unit().values()]
    seen = [[look for page in spread(list(pages.values())) if (look := looks.of(page)) is not None] for pages in groups]
    if any(seen):
        embeddings["pages"] = principal_components(_thumbnails(seen), _COMPONENTS)
    return Described(features, embeddings)


def compare_classes(
    described: Described,
    labels: Bools,
    rng: np.random.Generator,
    permutations: int = PERMUTATIONS,
    *,
    explain: bool = True,
) -> ClassComparison:
    """Compare members with non-members.

    Args:
        described: One row a provider.
        labels: bool (n,), both classes.
        rng: Draws folds, permutations, resamples and directions.
        permutations: Labellings of each permutation test.
        explain: Whether to search for the features that differ.
    """
    return ClassComparison(
        members=int(labels.sum()),
        others=int((~labels).sum()),
        blind=blind_baseline(described.features, labels, rng, permutations),
        distances={
            name: class_distance(points, labels, rng, permutations) for name, points in described.embeddings.items()
        },
        differences=tuple(differences(described.features, labels, rng)) if explain else (),
    )


def labels_of(corpus: Corpus, described: Described) -> Bools:
    """Membership of the providers that are described, bool (n,), true for members."""
    return np.array([corpus.label(provider) is Membership.MEMBER for provider in described.features.units])


def _thumbnails(seen: Sequence[Sequence[PageLook]]) -> Floats:
    """Mean thumbnail of each provider, float (n, pixels); the mean of all where a provider has no image."""
    means = np.full((len(seen), THUMBNAIL**2), np.nan)
    for row, looks in zip(means, seen, strict=True):
        if looks:
            row[:] = np.mean([look.thumbnail.ravel() for look in looks], axis=0)
    return np.where(np.isfinite(means), means, np.nanmean(means, axis=0))


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
    """Features that are significant over all features, the largest difference first.

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
    significant = [number for number in np.argsort(-np.abs(auc - 0.5), kind="stable") if p_values[number] <= _DIFFERENT]
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
    return rankdata(np.where(np.isfinite(values), values, np.median(known) if len(known) else 0.0))


def _typical(kind: str, values: Floats) -> float:
    known = values[np.isfinite(values)]
    if not len(known):
        return float("nan")
    return float((known > 0).mean() if kind == "words" else known.mean())
