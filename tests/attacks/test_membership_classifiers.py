import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pfl_audit.attacks.membership import classifiers, forest

SEEDS = st.integers(0, 10_000)


def two_groups(rng: np.random.Generator, apart: float = 5.0) -> tuple[np.ndarray, np.ndarray]:
    labels = rng.random(60) < 0.5
    return rng.normal(size=(60, 2)) + apart * labels[:, None], labels


def test_clusters_find_two_groups_and_call_the_higher_one_members() -> None:
    features, labels = two_groups(np.random.default_rng(0))
    assert (classifiers.predict_kmeans(features, features[:, 0], 0) == labels).all()
    assert (classifiers.predict_kmeans(features, -features[:, 0], 0) == ~labels).all()


def test_features_are_standardised_so_that_no_unit_outweighs_another() -> None:
    rng = np.random.default_rng(1)
    features, labels = two_groups(rng)
    noisy = np.column_stack([features, 1e6 * rng.normal(size=60)])
    scaled = np.column_stack([features * [1e-9, 1e-9], noisy[:, 2]])
    a = classifiers.predict_kmeans(noisy, features[:, 0], 0)
    b = classifiers.predict_kmeans(scaled, features[:, 0], 0)
    assert (a == b).all()
    assert (a == labels).mean() > 0.95


@pytest.mark.parametrize("features", [np.ones((5, 2)), np.zeros((1, 1))])
def test_nobody_is_a_member_where_all_are_alike(features: np.ndarray) -> None:
    assert not classifiers.predict_kmeans(features, features[:, 0], 0).any()


@settings(max_examples=30, deadline=None)
@given(seed=SEEDS, shuffle=SEEDS)
def test_order_of_the_rows_does_not_matter(seed: int, shuffle: int) -> None:
    rng = np.random.default_rng(seed)
    features, labels = two_groups(rng, apart=1.0)
    order = np.random.default_rng(shuffle).permutation(60)
    by_cluster = classifiers.predict_kmeans(features, features[:, 0], seed)
    assert (by_cluster[order] == classifiers.predict_kmeans(features[order], features[order, 0], seed)).all()
    by_forest = classifiers.forest_scores(features[:30], labels[:30], features[30:], seed)
    mixed = np.random.default_rng(shuffle).permutation(30)
    np.testing.assert_allclose(
        by_forest, classifiers.forest_scores(features[:30][mixed], labels[:30][mixed], features[30:], seed)
    )


@pytest.mark.parametrize(("n", "columns", "decimals"), [(4, 1, 9), (30, 2, 1), (99, 8, 9), (99, 9, 0)])
def test_a_forest_is_that_of_scikit_learn_to_the_last_digit(n: int, columns: int, decimals: int) -> None:
    rng = np.random.default_rng(n)
    train, test = (rng.normal(size=(rows, columns)).round(decimals) for rows in (n, 50))
    labels = np.arange(n) % 4 == 0
    expected = forest.forest(n).fit(train, labels).predict_proba(test)[:, 1]
    grown = [tree.predict(test.astype(np.float32))[:, 1] for tree in forest.grown(train.astype(np.float32), labels, n)]
    np.testing.assert_array_equal(sum(grown) / forest.TREES, expected)
    np.testing.assert_array_equal(forest.fitted_scores(train, labels, test, n), expected)


@pytest.mark.slow
def test_forest_scores_are_probabilities_that_separate() -> None:
    features, labels = two_groups(np.random.default_rng(2))
    scores = classifiers.forest_scores(features[:30], labels[:30], features[30:], 0)
    assert ((scores >= 0) & (scores <= 1)).all()
    assert ((scores > 0.5) == labels[30:]).mean() > 0.95
    searched = classifiers.forest_scores(features[:30], labels[:30], features[30:], 0, search=True)
    assert ((searched > 0.5) == labels[30:]).mean() > 0.95
    order = np.argsort(labels)
    few = np.r_[order[:2], order[-2:]]  # fewer than the search has folds
    assert len(classifiers.forest_scores(features[few], labels[few], features, 0, search=True)) == len(features)


def test_vote_by_hand() -> None:
    a = np.array([True, True, False, False])
    b = np.array([True, False, True, False])
    c = np.array([True, False, False, True])
    assert classifiers.majority_vote(a, b, c).tolist() == [True, False, False, False]
    assert classifiers.majority_vote(a, a, c).tolist() == [True, True, False, False]


@given(seed=SEEDS, members=st.integers(4, 60), others=st.integers(4, 60))
def test_the_known_providers_are_balanced_and_few(seed: int, members: int, others: int) -> None:
    labels = np.array([True] * members + [False] * others)
    known = classifiers.draw_known(labels, 0.15, seed)
    assert len(set(known.tolist())) == len(known)
    inside, outside = int(labels[known].sum()), int((~labels[known]).sum())
    assert inside >= 2
    assert outside >= 2
    assert len(known) <= max(4, 0.15 * len(labels) + 1)
    assert inside <= max(2, round(0.15 * members))
    assert outside <= max(2, round(0.15 * others))
    assert inside == outside or members != others


def test_another_scikit_learn_fits_its_forest_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    train, labels, test = rng.normal(size=(40, 3)), np.arange(40) % 2 == 0, rng.normal(size=(9, 3))
    ours = forest.fitted_scores(train, labels, test, 1)
    monkeypatch.setattr(forest.sklearn, "__version__", "1.8.2")
    monkeypatch.setattr(forest, "grown", None)
    assert (forest.fitted_scores(train, labels, test, 1) == ours).all()
