"""Template, private page and reconstruction side by side."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from pfl_audit.audit.attack import GradientContext
from pfl_audit.audit.gradient_case import Case
from pfl_audit.audit.results import Evidence
from pfl_audit.documents.images import Box

SHOWN = 3
_GAP = 8
_SCALE = 2
_PAPER = 225


def show(context: GradientContext, method: str, case: Case, page: NDArray[np.uint8], facts: dict[str, str]) -> Evidence:
    """Keep the pages whole in the private folder, and make a picture for the report, masked inside the fields.

    Args:
        context: Of the audit.
        method: Short name, for the file.
        case: With its truth.
        page: uint8 (height, width, 3), what came back.
        facts: Beside the picture.
    """
    template, truth = case.seen.template, case.truths[0]
    panels = [template.pixels, truth.page, page]
    boxes = [field.box for field in template.fields] if truth.values is not None else [(0.0, 0.0, 1.0, 1.0)]
    private = [(), boxes, boxes]
    picture, masked = _side_by_side(panels, private)
    name = f"inversion-{method}-{case.seen.stem}"
    context.evidence.keep_page(name, picture)
    path = context.evidence.show_picture(name, picture, masked)
    return Evidence(title="Template, private page, and what came back", facts={**facts}, picture=path)


def _side_by_side(
    panels: Sequence[NDArray[np.uint8]], private: Sequence[Sequence[Box]]
) -> tuple[Image.Image, list[Box]]:
    """One picture, enlarged, and where its private places are, as shares of it."""
    height, width = panels[0].shape[:2]
    sheet = np.full((height, 3 * width + 2 * _GAP, 3), _PAPER, dtype=np.uint8)
    total = sheet.shape[1]
    boxes = []
    for number, (panel, own) in enumerate(zip(panels, private, strict=True)):
        left = number * (width + _GAP)
        sheet[:, left : left + width] = panel
        boxes += [((left + a * width) / total, b, (left + c * width) / total, d) for a, b, c, d in own]
    picture = Image.fromarray(sheet)
    scale = max(1, min(_SCALE, 1800 // total))
    return picture.resize((total * scale, height * scale), Image.Resampling.NEAREST), boxes
