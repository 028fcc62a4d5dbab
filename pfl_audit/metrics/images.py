"""Picture scores (PSNR, MSE, FFT_2D) on the whole page or on some of its pixels.

Pictures are floats (height, width) or (height, width, channels), 0 to 1. What lies outside is clipped first: it is not
a picture. GI-DQA (section 4.1) names three measures and defines none. The definitions here are the usual ones, and its
Table 1 fits the first two of them: a picture with squared error e has a cosine distance of about e / (2 t), t being
the mean square of the true pixels, and with t = 0.87 (paper with some print on it) its PSNR column gives its FFT_2D
column: 24.2 dB, 0.002 (0.003 there); 13.7, 0.025 (0.027); 11.4, 0.042 (0.042); 7.0, 0.115 (0.113). Its MSE column fits
no such reading, in which 24.2 dB are 248 on this scale, and is not to be compared.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Image = NDArray[np.floating[Any]]
Mask = NDArray[np.bool_]

PSNR_CAP = 160.0
"""Decibels of a picture without any error; float32 rounding alone leaves about 150."""


@dataclass(frozen=True)
class ImageScores:
    """The three measures of one picture.

    Attributes:
        psnr: Decibels, up to PSNR_CAP; higher is nearer.
        fft2d: Cosine distance of the spectra, 0 to 2.
        mse: Mean squared error on the scale 0 to 255, 0 to 65,025.
    """

    psnr: float
    fft2d: float
    mse: float


def image_scores(image: Image, truth: Image, mask: Mask | None = None) -> ImageScores:
    """All three scores of a picture.

    Args:
        truth: The true picture, of the same shape.
        mask: bool (height, width): the pixels that count; all of them if None.

    Raises:
        ValueError: The shapes differ, a value is not finite, or the mask has no pixel.
    """
    return ImageScores(psnr(image, truth, mask), fft2d(image, truth, mask), mse(image, truth, mask))


def psnr(image: Image, truth: Image, mask: Mask | None = None) -> float:
    """Peak signal-to-noise ratio in decibels: -10 log10 of the mean squared error on the scale 0 to 1.

    The mean is over all channels of the pixels that count. At most PSNR_CAP, so that it can be averaged.
    """
    error = mse(image, truth, mask) / 255**2
    return min(PSNR_CAP, -10 * float(np.log10(error))) if error > 0 else PSNR_CAP


def mse(image: Image, truth: Image, mask: Mask | None = None) -> float:
    """Mean squared error on the scale 0 to 255, over all channels of the pixels that count."""
    one, other, inside = _checked(image, truth, mask)
    return float(np.mean((one[inside] - other[inside]) ** 2)) * 255**2


def fft2d(image: Image, truth: Image, mask: Mask | None = None) -> float:
    """Cosine distance in Fourier space (FFT_2D): one minus the cosine between the two complex spectra.

    The spectra are two-dimensional, one a channel, taken as one vector: 1 - Re<F(x), F(y)> / (|F(x)| |F(y)|). Pixels
    that do not count are 0 in both. 0 where both are black, 1 where one of them is.
    """
    one, other, inside = _checked(image, truth, mask)
    first, second = (
        np.fft.fft2(np.where(inside[..., None], picture, 0.0), axes=(0, 1)).ravel() for picture in (one, other)
    )
    size = float(np.linalg.norm(first)) * float(np.linalg.norm(second))
    if size == 0.0:
        return float(first.any() or second.any())
    return max(0.0, 1.0 - float(np.vdot(first, second).real) / size)


def _checked(
    image: Image, truth: Image, mask: Mask | None
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.bool_]]:
    """Both pictures as float64 (height, width, channels), clipped, and the mask."""
    if image.shape != truth.shape or image.ndim not in (2, 3):
        raise ValueError(f"pictures of shapes {image.shape} and {truth.shape} cannot be compared")
    if not (np.isfinite(image).all() and np.isfinite(truth).all()):
        raise ValueError("a pixel is not a finite number")
    inside = np.ones(image.shape[:2], dtype=bool) if mask is None else np.asarray(mask, dtype=bool)
    if inside.shape != image.shape[:2] or not inside.any():
        raise ValueError(f"a mask of shape {inside.shape} marks no pixels of a picture of shape {image.shape}")
    height, width = image.shape[:2]
    one, other = (
        np.clip(picture, 0.0, 1.0).astype(np.float64).reshape(height, width, -1) for picture in (image, truth)
    )
    return one, other, inside
