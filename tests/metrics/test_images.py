import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from pfl_audit.metrics.images import PSNR_CAP, fft2d, image_scores, mse, psnr

WHITE = np.ones((4, 6, 3))


def test_by_hand() -> None:
    truth = np.zeros((2, 2))
    image = np.array([[0.1, 0.1], [0.1, 0.3]])
    assert mse(image, truth) == pytest.approx(255**2 * (0.01 + 0.01 + 0.01 + 0.09) / 4)
    assert psnr(image, truth) == pytest.approx(10 * math.log10(1 / 0.03))


def test_one_level_of_255_is_one_unit_of_mse() -> None:
    assert mse(WHITE - 1 / 255, WHITE) == pytest.approx(1.0)
    assert psnr(WHITE - 1 / 255, WHITE) == pytest.approx(48.1308, abs=1e-4)  # the peak of 8 bits: 20 log10 255


def test_the_true_picture_and_a_black_one() -> None:
    scores = image_scores(WHITE, WHITE)
    assert (scores.psnr, scores.mse) == (PSNR_CAP, 0.0)
    assert scores.fft2d == pytest.approx(0.0, abs=1e-12)
    assert psnr(WHITE * 0, WHITE) == pytest.approx(0.0)
    assert fft2d(WHITE * 0, WHITE) == 1.0
    assert fft2d(WHITE * 0, WHITE * 0) == 0.0


def test_a_mask_leaves_the_rest_out() -> None:
    rng = np.random.default_rng(0)
    truth, image = rng.random((6, 8, 3)), rng.random((6, 8, 3))
    mask = np.zeros((6, 8), dtype=bool)
    mask[1:3, 2:5] = True
    assert mse(image, truth, mask) == pytest.approx(mse(image[1:3, 2:5], truth[1:3, 2:5]))
    changed = np.where(mask[..., None], image, rng.random((6, 8, 3)))
    assert image_scores(changed, truth, mask) == image_scores(image, truth, mask)


def spectrum(picture: np.ndarray) -> np.ndarray:
    """The transform, by its definition."""
    height, width = picture.shape
    return np.array(
        [
            sum(
                picture[y, x] * np.exp(-2j * np.pi * (v * y / height + u * x / width))
                for y in range(height)
                for x in range(width)
            )
            for v in range(height)
            for u in range(width)
        ]
    )


def test_fourier_distance_by_the_definition() -> None:
    rng = np.random.default_rng(1)
    one, other = rng.random((3, 4)), rng.random((3, 4))
    a, b = spectrum(one), spectrum(other)
    cosine = (a * b.conj()).sum().real / math.sqrt((abs(a) ** 2).sum() * (abs(b) ** 2).sum())
    assert fft2d(one, other) == pytest.approx(1 - cosine)


_PICTURES = arrays(np.float64, (3, 4, 2), elements=st.floats(0, 1))


@given(one=_PICTURES, other=_PICTURES)
def test_the_transform_keeps_angles(one: np.ndarray, other: np.ndarray) -> None:
    size = float(np.linalg.norm(one) * np.linalg.norm(other))
    if size > 1e-9:
        assert fft2d(one, other) == pytest.approx(1 - float((one * other).sum()) / size, abs=1e-9)


@given(one=_PICTURES, other=_PICTURES)
def test_scores_are_symmetric_and_bounded(one: np.ndarray, other: np.ndarray) -> None:
    scores = image_scores(one, other)
    assert scores.mse == pytest.approx(image_scores(other, one).mse)
    assert 0 <= scores.fft2d <= 1 + 1e-9
    assert -1e-9 <= scores.psnr <= PSNR_CAP


def test_what_is_no_picture_is_clipped_or_refused() -> None:
    assert mse(WHITE * 3, WHITE) == 0.0
    with pytest.raises(ValueError, match="finite"):
        mse(WHITE * np.nan, WHITE)
    with pytest.raises(ValueError, match="shapes"):
        psnr(WHITE, WHITE[:2])
    with pytest.raises(ValueError, match="marks no pixels"):
        fft2d(WHITE, WHITE, np.zeros((4, 6), dtype=bool))
    with pytest.raises(ValueError, match="marks no pixels"):
        fft2d(WHITE, WHITE, np.ones((6, 4), dtype=bool))
