from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray

from pfl_audit.attacks.membership.present import present_blind
from pfl_audit.attacks.membership.specs import BLIND
from pfl_audit.documents.corpus import Corpus
from pfl_audit.documents.readers import open_corpus
from pfl_audit.fitness.blind import (
    PENALTIES,
    Blind,
    OutOfFold,
    blind_baseline,
    draw_folds,
    out_of_fold_scores,
    permutation_p_value,
)
from pfl_audit.fitness.document_features import DocumentFeatures, document_features
from pfl_audit.fitness.kernel_factors import additive_factor, factors_of, narrow
from pfl_audit.metrics import ranking
from pfl_audit.progress import Silent
from tests.arrangements import arrangements
from tests.oracles import blind as oracle

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    return open_corpus(Path(__file__).parents[2] / "fixtures/red", "red")


@pytest.fixture(scope="module")
def real(corpus: Corpus) -> DocumentFeatures:
    return document_features(corpus, Silent())


def features_of(tables: dict[str, Floats], words: Floats | None = None) -> DocumentFeatures:
    n = len(next(iter(tables.values())))
    frames = {kind: pd.DataFrame(values) for kind, values in tables.items()}
    return DocumentFeatures(tuple(map(str, range(n))), frames, np.zeros((n, 0)) if words is None else words)


def joint(features: DocumentFeatures) -> Floats:
    factors = [factor for _, factor in factors_of(features)]
    return np.hstack([np.zeros((len(features.units), 0)), *factors]) / np.sqrt(max(1, len(factors)))


@pytest.mark.parametrize("n", [2, 9, 300])
@pytest.mark.parametrize("missing", [0.0, 0.01, 0.5, 1.0])
def test_factors_are_those_of_the_kernel(n: int, missing: float) -> None:
    """Columns of distinct numbers, of ties, of outliers and of nothing."""
    rng = np.random.default_rng(n)
    values = np.column_stack([rng.normal(size=n), rng.integers(0, 3, n), rng.standard_cauchy(n), np.ones(n)])
    values = np.where(rng.random(values.shape) < missing, np.nan, values)
    factor = additive_factor(values)
    np.testing.assert_allclose(factor @ factor.T, oracle.additive_kernel(values), atol=1e-13)
    assert factor.shape[1] <= min(n, 200)
    wide = rng.normal(size=(n, 400))
    np.testing.assert_allclose(narrow(wide) @ narrow(wide).T, wide @ wide.T, atol=1e-10)
    assert narrow(wide).shape == (n, n)


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("members", "n"), [(1, 22), (4, 25), (11, 22), (3, 7)])
def test_against_a_refit_for_every_fold_and_labelling(members: int, n: int) -> None:
    rng = np.random.default_rng(members)
    labels = np.arange(n) < members
    features = {"counts": rng.normal(size=(n, 3)) + labels[:, None], "text": rng.normal(size=(n, 2))}
    factor = joint(features_of(features))
    kernel = sum(oracle.centred(oracle.additive_kernel(values)) for values in features.values()) / 2
    folds = draw_folds(n, rng)
    regressions = OutOfFold.fitted(factor, folds)
    drawn = rng.permuted(np.tile(labels, (20, 1)), axis=1)
    expected = np.array([oracle.scores(kernel, folds, row) for row in drawn])
    assert out_of_fold_scores(regressions, drawn) == pytest.approx(expected, abs=1e-8)
    expected_p = oracle.p_value(kernel, folds, labels, np.random.default_rng(1), 60)
    assert permutation_p_value(regressions, labels, np.random.default_rng(1), 60) == expected_p


def test_a_provider_s_own_label_does_not_move_its_score() -> None:
    """But for the middle between the classes, to which the others' scores are a guide that it took part in."""
    rng = np.random.default_rng(0)
    labels = np.arange(40) % 2 == 0
    folds = draw_folds(40, rng)
    regressions = OutOfFold.fitted(joint(features_of({"counts": rng.normal(size=(40, 4))})), folds)
    turned = labels.copy()
    turned[7] = not turned[7]
    before, after = out_of_fold_scores(regressions, np.array([labels, turned]))
    own, others = folds == folds[7], folds != folds[7]
    assert np.ptp((after - before)[own]) < 1e-8
    assert np.abs(after - before)[own].max() < 0.2 < np.abs(after - before)[others].max()


def test_members_that_are_asked_for_another_key(corpus: Corpus, real: DocumentFeatures) -> None:
    asked = np.array([any(q.key == "payment_terms" for q in queries) for queries in corpus.by_unit().values()])
    assert (asked.sum(), (~asked).sum()) == (93, 107)
    found = blind_baseline(real, asked, np.random.default_rng(0), 199)
    assert found.auc.low > 0.9
    assert found.balanced_accuracy.value > 0.83  # what the strongest attack of the issue reads
    assert found.p_value == 1 / 200
    assert found.kinds["keys"].value > 0.95
    assert found.kinds["images"].value < 0.65


def _above(column: str, kind: str) -> Callable[[DocumentFeatures], Bools]:
    return lambda features: features.tables[kind][column].to_numpy() > features.tables[kind][column].median()


def _middle(features: DocumentFeatures) -> Bools:
    values = features.tables["layout"]["box height"].rank(pct=True).to_numpy()
    return np.asarray((values > 0.25) & (values < 0.75))


def _word(features: DocumentFeatures) -> Bools:
    shares = (features.words > 0).mean(axis=0)
    return np.asarray(features.words[:, np.argmin(np.abs(shares - 0.5))] > 0)


@pytest.mark.parametrize(
    ("kind", "members", "at_least"),
    [
        ("counts", _above("documents", "counts"), 0.95),
        ("dates", _above("mean time", "dates"), 0.95),
        ("images", _above("brightness", "images"), 0.9),
        ("layout", _middle, 0.85),
        ("words", _word, 0.65),
    ],
)
def test_classes_that_differ_in_one_feature(
    real: DocumentFeatures, kind: str, members: Callable[[DocumentFeatures], Bools], at_least: float
) -> None:
    """The whole finds it, and the kind that it is of finds it best; in the middle of the range as well as at an end."""
    found = blind_baseline(real, members(real), np.random.default_rng(0), 199)
    assert found.auc.low > at_least
    assert found.p_value == 1 / 200
    assert max(found.kinds, key=lambda name: found.kinds[name].value) == kind


class EveryArrangement:
    """Draws every arrangement of eight labels in turn, in place of random ones."""

    def permuted(self, rows: Bools, axis: int) -> Bools:
        assert rows.shape == (70, 8)
        return arrangements(4)


@pytest.mark.parametrize("ties", [False, True])
def test_no_level_is_exceeded_over_all_arrangements_of_the_labels(ties: bool) -> None:
    """Each is as likely as any other where documents say nothing: the share that is significant is the error rate."""
    rng = np.random.default_rng(0)
    values = rng.integers(0, 2, size=(8, 3)).astype(float) if ties else rng.normal(size=(8, 4))
    regressions = OutOfFold.fitted(joint(features_of({"counts": values})), draw_folds(8, rng))
    every = EveryArrangement()
    found = np.array([permutation_p_value(regressions, labels, every, 70) for labels in arrangements(4)])  # type: ignore[arg-type]
    for alpha in (0.02, 0.05, 0.1, 0.5):
        assert np.mean(found <= alpha) <= alpha
    assert np.mean(found <= 0.5) > 0.15


def test_what_is_alike_gives_nothing_away() -> None:
    found = blind_baseline(features_of({"counts": np.ones((12, 3))}), np.arange(12) < 5, np.random.default_rng(0), 50)
    assert (found.auc.value, found.p_value, dict(found.kinds)) == (0.5, 1.0, {})
    assert not (found.scores > 0).any()
    with pytest.raises(ValueError, match="both"):
        blind_baseline(features_of({"counts": np.ones((12, 3))}), np.ones(12, dtype=bool), np.random.default_rng(0))


def test_values_that_are_missing_may_tell_the_classes_apart() -> None:
    labels = np.arange(40) < 20
    values = np.random.default_rng(0).normal(size=(40, 1))
    values[labels] = np.nan
    found = blind_baseline(features_of({"dates": values}), labels, np.random.default_rng(0), 99)
    assert found.auc.value == 1.0
    assert additive_factor(np.full((5, 2), np.nan)).shape == (5, 0)


def test_the_middle_is_between_the_classes_whatever_their_sizes() -> None:
    rng = np.random.default_rng(0)
    labels = np.arange(200) < 20
    found = blind_baseline(features_of({"counts": rng.normal(size=(200, 2)) + 3 * labels[:, None]}), labels, rng, 9)
    assert found.balanced_accuracy.value > 0.9
    calls = found.scores > 0
    assert calls[labels].mean() == pytest.approx((~calls[~labels]).mean(), abs=0.1)


def test_the_check(real: DocumentFeatures) -> None:
    labels = np.random.default_rng(0).permutation(200) < 100
    blind: Blind = blind_baseline(real, labels, np.random.default_rng(0), 99)
    check = present_blind(blind)
    assert (check.id, check.part_of, check.finding) == (BLIND, "membership.provider", None)
    first, second = check.metrics
    assert first.name == "AUC"
    assert first.value == pytest.approx(ranking.auc(blind.scores, labels)[0])
    assert second.value == pytest.approx(ranking.balanced_accuracy(blind.scores > 0, labels)[0])
    assert {metric.chance for metric in check.metrics} == {0.5}
    assert f"{blind.p_value:.4f}" in (first.note or "")
    assert [row[0] for row in check.tables[0].rows] == ["counts", "keys", "text", "layout", "dates", "images", "words"]
    assert not [name for name in real.units if name in check.model_dump_json()]


def test_what_the_documents_explain_is_taken_off_and_no_more() -> None:
    """Against ridge regressions that are fitted anew without each provider."""
    rng = np.random.default_rng(5)
    values = rng.normal(size=(60, 2))
    found = blind_baseline(features_of({"counts": values}), np.arange(60) < 30, np.random.default_rng(0), 19)
    rows = np.flatnonzero(rng.random(60) < 0.8)
    x, n = found.factor[rows], len(rows)
    for explained, least, most in ((3.0, 0.0, 0.5), (0.0, 0.8, 1.01)):
        drawn = explained * values[rows, 0] + rng.normal(size=n)

        def residuals(penalty: float, on: np.ndarray, of: np.ndarray, y: np.ndarray = drawn) -> np.ndarray:
            """With an intercept, that is not penalised."""
            centred = x[on] - x[on].mean(axis=0)
            slopes = np.linalg.solve(
                centred.T @ centred + penalty * np.eye(x.shape[1]), centred.T @ (y[on] - y[on].mean())
            )
            return y[of] - y[on].mean() - (x[of] - x[on].mean(axis=0)) @ slopes

        every = np.arange(n)
        errors = [
            sum(residuals(penalty * n, every[every != one], np.array([one]))[0] ** 2 for one in every)
            for penalty in PENALTIES
        ]
        left = found.unexplained(drawn, rows)
        np.testing.assert_allclose(left, residuals(PENALTIES[int(np.argmin(errors))] * n, every, every), atol=1e-8)
        assert least < left.std() / drawn.std() < most
