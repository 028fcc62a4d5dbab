"""Printed words of a page by OCR, and the labels of its fields."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from PIL import Image

from pfl_audit.attacks.inversion.template.find import reading_order
from pfl_audit.attacks.inversion.template.template import Pixels, Template, TemplateField
from pfl_audit.documents.document import Boxes, as_boxes
from pfl_audit.documents.images import Box
from pfl_audit.models.rapid_ocr import open_rapidocr

_LEAST_SIDE = 672
"""Pixels of a page's shorter side, to which small pages are enlarged before they are read."""


def read_page(pixels: Pixels) -> tuple[tuple[str, ...], Boxes]:
    """Read a whole page with rapidocr.

    Args:
        pixels: uint8 (height, width, 3), RGB.

    Returns:
        Its words in reading order, and their boxes: float32 (words, 4), shares of the page.

    Raises:
        UsageError: rapidocr is not installed.
    """
    engine = open_rapidocr()
    height, width = pixels.shape[:2]
    factor = max(1, -(-_LEAST_SIDE // min(height, width)))
    page = Image.fromarray(pixels).resize((width * factor, height * factor), Image.Resampling.BICUBIC)
    bgr = np.ascontiguousarray(np.asarray(page)[:, :, ::-1])
    found = engine(bgr, use_cls=False, return_word_box=True)
    scale = np.array([width, height]) * factor
    words: list[str] = []
    boxes: list[Box] = []
    for line in found.word_results or ():
        for text, _, corners in line:
            shares = np.asarray(corners, dtype=np.float64).reshape(-1, 2) / scale
            if text.strip() and np.isfinite(shares).all():
                low, high = shares.min(axis=0).clip(0, 1).tolist(), shares.max(axis=0).clip(0, 1).tolist()
                words.append("".join(text.split()))
                boxes.append((low[0], low[1], high[0], high[1]))
    order = reading_order(boxes)
    return tuple(words[at] for at in order), as_boxes([boxes[at] for at in order], len(order))


def with_print(template: Template) -> Template:
    """A template whose words are not given, with what is printed on it; fields without a label get theirs.

    Raises:
        UsageError: rapidocr is not installed.
    """
    words, boxes = (template.words, template.boxes) if template.words else read_page(template.pixels)
    fields = tuple(
        field if field.label else replace(field, label=label_of(template, field, words, boxes))
        for field in template.fields
    )
    return replace(template, words=words, boxes=boxes, fields=fields)


def label_of(template: Template, field: TemplateField, words: Sequence[str], boxes: Boxes) -> str:
    """What is printed beside a field: to its left, else right above it, else right below; empty if nothing is.

    Args:
        words: What is printed, in reading order.
        boxes: float32 (words, 4), shares of the page.
    """
    left, top, right, bottom = field.box
    height, slack = bottom - top, 0.5 / min(template.size)
    row = [other.box for other in template.fields if other.box[1] < bottom and top < other.box[3]]
    start = max((box[2] for box in row if box[2] <= left + slack), default=0.0)
    middles = (boxes[:, :2] + boxes[:, 2:]) / 2
    beside = (middles[:, 0] > start) & (middles[:, 0] < left) & (middles[:, 1] > top) & (middles[:, 1] < bottom)
    column = (middles[:, 0] > left - slack) & (middles[:, 0] < right)
    above = column & (middles[:, 1] < top) & (middles[:, 1] > top - height)
    below = column & (middles[:, 1] > bottom) & (middles[:, 1] < bottom + height)
    for near in (beside, above, below):
        if near.any():
            return " ".join(words[at] for at in np.flatnonzero(near).tolist())
    return ""
