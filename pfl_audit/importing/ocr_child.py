"""OCR of one picture as plain data; runs in the sandbox (``pages.py``)."""

from __future__ import annotations

import io
from collections.abc import Sequence
from functools import lru_cache
from itertools import accumulate
from typing import Any

import numpy as np

from pfl_audit.documents.document import Boxes, as_boxes
from pfl_audit.documents.image_file import open_picture
from pfl_audit.models.rapid_ocr import open_rapidocr


def answer(picture: bytes, language: str) -> tuple[list[str], list[list[float]]]:
    """Words of a picture in reading order, and their boxes as shares of the page.

    Args:
        picture: JPEG or PNG, written by this package.
        language: Language of the recogniser.
    """
    with open_picture(io.BytesIO(picture)) as image:
        pixels = np.asarray(image.convert("RGB"))[:, :, ::-1]  # rapidocr takes BGR
    found: Any = _engine(language)(np.ascontiguousarray(pixels))
    words: list[str] = []
    boxes: list[Any] = []
    size = np.array([pixels.shape[1], pixels.shape[0]], dtype=np.float64)
    for text, corners, parts in zip(found.txts or (), *_places(found), strict=True):
        line = np.asarray(corners, dtype=np.float64)
        words += text.split()
        boxes += word_boxes(text, line, [(part[0], part[2]) for part in parts])
    return words, _shares(boxes, size).tolist()


def word_boxes(text: str, line: np.ndarray, parts: Sequence[tuple[str, Any]]) -> list[np.ndarray]:
    """Boxes of the words of a line.

    Args:
        text: Text of the line.
        line: float (4, 2), corners of the line, clockwise from the top left.
        parts: Texts and corners of the parts that the recogniser saw, which may be words or letters.

    Returns:
        For each word left, top, right, bottom. Where the parts do not make up the words, words share the width of the
        line by their letters.
    """
    words = text.split()
    left = list(parts)
    found = []
    for word in words:
        taken: list[tuple[str, Any]] = []
        while left and sum(len(part) for part, _ in taken) < len(word):
            taken.append(left.pop(0))
        if "".join(part for part, _ in taken) != word:
            return _by_letters(text, line)
        corners = np.concatenate([np.asarray(box, dtype=np.float64) for _, box in taken])
        found.append(np.concatenate([corners.min(axis=0), corners.max(axis=0)]))
    return found


def _by_letters(text: str, line: np.ndarray) -> list[np.ndarray]:
    low, high = line.min(axis=0), line.max(axis=0)
    words = text.split()
    ends = list(accumulate(len(word) + 1 for word in words))
    width = (high[0] - low[0]) / max(1, ends[-1] - 1)
    rows = zip(words, ends, strict=True)
    return [
        np.array([low[0] + (end - len(word) - 1) * width, low[1], low[0] + (end - 1) * width, high[1]])
        for word, end in rows
    ]


def _places(found: Any) -> tuple[Sequence[Any], Sequence[Any]]:
    """Corners of the lines and their parts; none of a line where there is not one entry for each."""
    if not found.txts:
        return (), ()
    parts = found.word_results
    return found.boxes, parts if parts and len(parts) == len(found.txts) else [()] * len(found.txts)


def _shares(boxes: Sequence[Any], size: np.ndarray) -> Boxes:
    shares = np.asarray(boxes, dtype=np.float64).reshape(-1, 4) / np.concatenate([size, size])
    return as_boxes(np.clip(shares, 0, 1), len(boxes))


@lru_cache(maxsize=1)
def _engine(language: str) -> Any:
    return open_rapidocr(language=language, words=True)
