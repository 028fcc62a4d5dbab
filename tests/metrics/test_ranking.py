import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pfl_audit.metrics import arrays, ranking
from pfl_audit.metrics.intervals import bootstrap_weights

from ..oracles import ranking as oracle

CASES = st.integers(2, 14).flatmap(
    lambda n: st.tuples(
        st.lists(st.sampled_from([0.0, 0.1, 0.5, 0.5001, 1.0]), min_size=n, max_size=n),
        st.lists(st.booleans(), min_size=n, max_size=n).filter(lambda labels: any(labels) and not all(labels)),
        st.lists(st.integers(0, 3), min_size=n, max_size=n),
    )
)


def tpr_at(curves: ranking.RocCurves, limit: float) -> tuple[arrays.Floats, arrays.Floats]:
    """Largest TPR that some threshold reaches while its FPR is at most ``limit``, and that FPR, by resample."""
    last = np.maximum((curves.fpr <= limit + 1e-12).sum(axis=1) - 1, 0)
    nan = ~np.isfinite(curves.fpr[:, -1]) | ~np.isfinite(curves.tpr[:, -1])
    best, real = (np.where(nan, np.nan, one[np.arange(len(one)), last]) for one in (curves.tpr, curves.fpr))
    return best, real


def both_classes(labels: list[bool], weights: list[int]) -> bool:
    return any(w for label, w in zip(labels, weights, strict=True) if label) and any(
        w for label, w in zip(labels, weights, strict=True) if not label
    )


@given(case=CASES)
def test_auc_and_tpr_against_the_definitions(case: tuple[list[float], list[bool], list[int]]) -> None:
    scores, labels, weights = case
    if not both_classes(labels, weights):
        weights = [1] * len(weights)
    args = np.array(scores), np.array(labels)
    row = np.array([weights], dtype=float)
    assert ranking.auc(*args, row)[0] == pytest.approx(oracle.auc(scores, labels, weights))
    for limit in (0.0, 0.1, 0.34, 1.0):
        found, realised = tpr_at(ranking.roc_curves(*args, row), limit)
        assert found[0] == pytest.approx(oracle.tpr_at_fpr(scores, labels, weights, limit))
        assert realised[0] <= limit + 1e-12


@given(case=CASES, seed=st.integers(0, 100))
def test_the_order_of_the_rows_does_not_matter(case: tuple[list[float], list[bool], list[int]], seed: int) -> None:
    scores, labels = np.array(case[0]), np.array(case[1])
    order = np.random.default_rng(seed).permutation(len(scores))
    assert ranking.auc(scores, labels) == pytest.approx(ranking.auc(scores[order], labels[order]))
    before = tpr_at(ranking.roc_curves(scores, labels), 0.1)
    after = tpr_at(ranking.roc_curves(scores[order], labels[order]), 0.1)
    assert before[0] == pytest.approx(after[0])


def test_a_coin_is_no_attack_however_the_file_is_sorted() -> None:
    """Members first, non-members first, or shuffled: a hard label's TPR at 1 % FPR cannot be resolved."""
    rng = np.random.default_rng(0)
    labels = np.array([True] * 200 + [False] * 200)
    coin = rng.random(400) < 0.5
    for order in (np.arange(400), np.arange(400)[::-1], rng.permutation(400)):
        assert ranking.resolvable(coin[order].astype(float), labels[order], 0.01) is not None
        assert tpr_at(ranking.roc_curves(coin[order].astype(float), labels[order]), 0.01)[0][0] == 0.0


def test_curve_runs_from_nobody_to_everybody() -> None:
    curve = ranking.roc_curves(np.array([0.9, 0.9, 0.1]), np.array([True, False, False]))
    np.testing.assert_allclose(curve.fpr[0], [0, 0.5, 1])
    np.testing.assert_allclose(curve.tpr[0], [0, 1, 1])


def test_too_few_non_members_to_resolve_one_per_cent() -> None:
    scores = np.linspace(0, 1, 150)
    few = np.arange(150) < 90
    many = np.arange(150) < 50
    assert "60 non-members, 100 are needed" in str(ranking.resolvable(scores, few, 0.01))
    assert ranking.resolvable(scores, many, 0.01) is None
    assert ranking.resolvable(scores, few, 0.1) is None


def test_accuracies_by_hand() -> None:
    calls = np.array([True, True, False, False])
    labels = np.array([True, False, False, False])
    assert ranking.accuracy(calls, labels)[0] == 0.75
    assert ranking.balanced_accuracy(calls, labels)[0] == pytest.approx((1 + 2 / 3) / 2)


@pytest.mark.parametrize(
    ("scores", "labels"), [([1.0, 2.0], [True, True]), ([1.0], [False]), ([float("nan"), 1.0], [True, False])]
)
def test_what_cannot_be_ranked(scores: list[float], labels: list[bool]) -> None:
    with pytest.raises(ValueError, match=r"needed|finite"):
        ranking.auc(np.array(scores), np.array(labels))


def test_many_resamples_at_once_equal_one_at_a_time() -> None:
    rng = np.random.default_rng(3)
    scores, labels = rng.normal(size=60).round(1), rng.random(60) < 0.4
    weights = bootstrap_weights(labels, rng, 50)
    together = ranking.auc(scores, labels, weights)
    apart = [ranking.auc(scores, labels, row[None])[0] for row in weights]
    np.testing.assert_allclose(together, apart)


@pytest.mark.parametrize(("n", "decimals"), [(2, 9), (60, 0), (60, 1), (333, 9), (333, 1)])
@pytest.mark.parametrize("rows", [1, 2, 3, 50])
@pytest.mark.parametrize("cells", [1, 500, 1 << 17])
def test_curves_equal_those_of_running_sums_over_everybody(
    n: int, decimals: int, rows: int, cells: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bit for bit, ties and resamples without a class included, whatever the blocks."""
    monkeypatch.setattr(arrays, "_CELLS", cells)
    rng = np.random.default_rng([n, rows])
    scores, labels = rng.normal(size=n).round(decimals), np.arange(n) % 3 == 0
    weights = rng.integers(0, 3, size=(rows, n)).astype(float)
    weights[rows // 2, labels if rows > 2 else []] = 0.0
    with np.errstate(invalid="ignore", divide="ignore"):
        expected = ranking.RocCurves(*oracle.roc_curves(scores, labels, weights))
    found = ranking.roc_curves(scores, labels, weights)
    np.testing.assert_array_equal(found.fpr, expected.fpr)
    np.testing.assert_array_equal(found.tpr, expected.tpr)
    np.testing.assert_array_equal(ranking.auc(scores, labels, weights), expected.area())
    for limit in (0.0, 0.01, 0.1, 1.0):
        np.testing.assert_array_equal(tpr_at(found, limit), tpr_at(expected, limit))


@pytest.mark.parametrize(("n", "decimals"), [(4, 9), (60, 0), (60, 1), (333, 9), (333, 1)])
@pytest.mark.parametrize("cells", [1, 500, 1 << 17])
def test_resamples_in_columns_equal_the_curves(
    n: int, decimals: int, cells: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bit for bit, also of some of the providers, of hard calls, and of resamples without a class."""
    monkeypatch.setattr(arrays, "_CELLS", cells)
    rng = np.random.default_rng(n)
    labels, rows = np.arange(n) % 3 == 0, rng.permutation(n + 5)[:n]
    counts = rng.integers(0, 3, size=(n + 5, 7)).astype(np.float32)
    counts[rows[labels], 1] = counts[rows[~labels], 2] = 0
    weights = counts[rows].T.astype(float)
    limits = (0.0, 0.01, 0.1, 1.0)
    for scores in (rng.normal(size=n).round(decimals), rng.integers(0, 2, n).astype(float), np.ones(n)):
        areas, rates = ranking.sweep(scores, labels, rows).resampled(counts, limits)
        with np.errstate(invalid="ignore", divide="ignore"):
            expected = ranking.RocCurves(*oracle.roc_curves(scores, labels, weights))
        np.testing.assert_array_equal(areas, expected.area())
        for limit, found in zip(limits, rates, strict=True):
            np.testing.assert_array_equal(found, tpr_at(expected, limit)[0])
        calls = scores > 0
        accuracy, balanced = ranking.right_calls(calls, labels, rows, counts)
        np.testing.assert_array_equal(accuracy, ranking.accuracy(calls, labels, weights))
        np.testing.assert_array_equal(balanced, ranking.balanced_accuracy(calls, labels, weights))


def test_areas_of_many_resamples_take_little_memory() -> None:
    rng = np.random.default_rng(0)
    scores, labels = rng.normal(size=1000), rng.random(1000) < 0.5
    weights = bootstrap_weights(labels, rng, 2000)
    tracemalloc.start()
    ranking.auc(scores, labels, weights)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < weights.nbytes / 2
