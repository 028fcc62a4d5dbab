"""Membership classifiers: K-Means, random forest, thresholds and majority vote, as pure functions over arrays.

A row is a provider; ``features`` is float (n, features); a prediction is bool (n,), true for "member".
Source: privacy-aware-docvqa, section 5.2.3.
"""

from __future__ import annotations

import numpy as np
from sklearn.cluster import KMeans
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import RandomizedSearchCV, StratifiedKFold
from sklearn.preprocessing import scale

from pfl_audit.attacks.membership.forest import fitted_scores
from pfl_audit.metrics.arrays import Bools, Floats, Integers

_SEARCH = {"n_estimators": list(range(50, 500)), "max_depth": list(range(1, 20))}
"""The space and effort of the reference's search: 5 draws, 5 folds."""
_STARTS = 10
"""Of K-Means; the best counts."""


def predict_kmeans(features: Floats, orient: Floats, seed: int, *, raw: bool = False) -> Bools:
    """Predict membership by K-Means with two clusters: members are the one with the higher mean ``orient`` (AZK, CLS2).

    Features are standardised first, so that none outweighs the others by its unit. No label is used.

    Args:
        features: Features of the providers to classify.
        orient: float (n,), what members are expected to have more of.
        raw: Divide the features as they are, from random rows, as the reference does.

    Returns:
        No provider is a member where all providers are alike, or where both clusters have the same mean.
    """
    scaled = features if raw else scale(features)
    if (scaled == scaled[:1]).all():
        return np.zeros(len(features), dtype=bool)
    # The result must not depend on the order of the rows, and K-Means draws its start by row.
    order = np.lexsort(scaled.T)
    labels = np.empty(len(features), dtype=int)
    start = "random" if raw else "k-means++"
    labels[order] = KMeans(2, init=start, n_init=_STARTS, random_state=seed).fit_predict(scaled[order])
    means = [orient[labels == cluster].mean() for cluster in (0, 1)]
    if np.isclose(means[0], means[1]):
        return np.zeros(len(features), dtype=bool)
    return labels == int(means[1] > means[0])


def forest_scores(train: Floats, labels: Bools, test: Floats, seed: int, *, search: bool = False) -> Floats:
    """A random forest's probability of membership (APK).

    Args:
        train: Features of the providers whose membership the attacker knows.
        labels: bool, their membership.
        test: Features of the others.
        search: Tune number and depth of the trees by cross-validation on ``train``, as the
            reference does, with scikit-learn's defaults otherwise. With some twenty training providers that picks
            noise, so it is off.

    Returns:
        float (len(test),), 0 to 1.
    """
    order = np.lexsort(np.column_stack([train, labels]).T)
    folds = min(5, int(labels.sum()), int((~labels).sum()))
    if not search or folds < 2:
        return fitted_scores(train[order], labels[order], test, seed)
    split = StratifiedKFold(folds, shuffle=True, random_state=seed)
    plain = RandomForestClassifier(random_state=seed)  # the search is over the library's defaults, as the reference's
    tuned = RandomizedSearchCV(plain, _SEARCH, n_iter=5, cv=split, random_state=seed)
    return tuned.fit(train[order], labels[order]).predict_proba(test)[:, 1]


def ratio_scores(ratios: Floats) -> Floats:
    """Mean of the likelihood ratios, each standardised over the attacked providers; a single one is unchanged.

    The ratios have units of their own (one is of whole answers, one a token), and no label says which one is worth
    more: they count alike. A provider that lacks one has its median, which moves the score neither up nor down by much.

    Args:
        ratios: float (n, ratios), finite.

    Returns:
        float (n,).
    """
    return ratios[:, 0] if ratios.shape[1] == 1 else np.asarray(scale(ratios).mean(axis=1))


def majority_vote(*calls: Bools) -> Bools:
    """Prediction of more than half of the classifiers (hard voting)."""
    return 2 * np.sum(calls, axis=0) > len(calls)


def draw_known(labels: Bools, share: float, seed: int, equal: bool = False) -> Integers:
    """Draw the providers whose membership a partial-knowledge attacker knows.

    The same number of each class, but of no class more than its share, so that a small one is not used up, unless
    ``equal``.

    Args:
        labels: bool (n,), rows in a fixed order.
        share: Share of all providers that is known (r of the paper, 0.15).

    Returns:
        Row numbers, rising; at least two of each class.
    """
    rng = np.random.default_rng(seed)
    each = round(share * len(labels) / 2)
    chosen = []
    for value in (False, True):
        rows = np.flatnonzero(labels == value)
        wanted = each if equal else min(each, round(share * len(rows)))
        count = min(max(2, wanted), len(rows) - 1)
        chosen.append(rng.choice(rows, size=count, replace=False))
    return np.sort(np.concatenate(chosen))
