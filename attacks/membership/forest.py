"""A random forest of scikit-learn, grown without what it does again for every tree.

With some hundred known providers, nine tenths of the time that ``RandomForestClassifier`` takes are checks and copies
of settings that are the same for all its trees. The trees are grown here by the same compiled code from the same draws,
so that every score is equal to the last digit. The compiled code is no public interface: this is done with the versions
that it was compared with, and any other one fits its forest itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import numpy as np
import sklearn
from numpy.typing import NDArray
from sklearn.ensemble import RandomForestClassifier
from sklearn.utils.class_weight import compute_sample_weight

from pfl_audit.metrics.arrays import Bools, Floats

if TYPE_CHECKING:
    from sklearn.tree._tree import Tree

TREES: Final = 100
LEAF: Final = 2
"""Fewest samples in a leaf."""
COMPARED: Final = "1.9."
"""Versions of scikit-learn whose scores are equal to the last digit (``test_membership_classifiers``)."""
_DEEPEST: Final = int(np.iinfo(np.int32).max)
_CLASSES: Final = np.array([2], dtype=np.intp)


def forest(seed: int) -> RandomForestClassifier:
    """The forest whose scores these are, not fitted."""
    return RandomForestClassifier(TREES, min_samples_leaf=LEAF, class_weight="balanced", random_state=seed)


def fitted_scores(train: Floats, labels: Bools, test: Floats, seed: int) -> Floats:
    """``forest(seed).fit(train, labels).predict_proba(test)[:, 1]``.

    Args:
        train: float (m, features), finite.
        labels: bool (m,), both classes.
        test: float (n, features), finite.

    Returns:
        float (n,), 0 to 1.
    """
    if not sklearn.__version__.startswith(COMPARED):
        return forest(seed).fit(train, labels).predict_proba(test)[:, 1]
    rows, asked = (np.ascontiguousarray(part, dtype=np.float32) for part in (train, test))
    scores = np.zeros(len(test))
    for tree in grown(rows, labels, seed):
        scores += tree.predict(asked)[:, 1]
    return scores / TREES


def grown(rows: NDArray[np.float32], labels: Bools, seed: int) -> Iterator[Tree]:
    """The trees, as ``RandomForestClassifier`` and ``DecisionTreeClassifier`` grow them."""
    from sklearn.tree import _criterion, _splitter, _tree

    rng = np.random.RandomState(seed)
    seeds = [rng.randint(np.iinfo(np.int32).max) for _ in range(TREES)]
    weights = compute_sample_weight("balanced", labels)
    upto = np.cumsum(weights / np.sum(weights))
    upto /= upto[-1]
    answers, count = labels.astype(np.float64)[:, None], len(labels)
    features = max(1, int(np.sqrt(rows.shape[1])))
    for one in seeds:
        rng.seed(one)
        drawn = upto.searchsorted(rng.random_sample(count), side="right")  # what rng.choice does
        counts = np.bincount(drawn, minlength=count).astype(np.float64)
        rng.seed(one)
        criterion = _criterion.Gini(1, _CLASSES)
        splitter = _splitter.BestSplitter(criterion, features, LEAF, 0.0, rng, None)
        tree = _tree.Tree(rows.shape[1], _CLASSES, 1)
        builder = _tree.DepthFirstTreeBuilder(splitter, 2 * LEAF, LEAF, 0.0, _DEEPEST, 0.0)
        builder.build(tree, rows, answers, counts, None)
        yield tree
