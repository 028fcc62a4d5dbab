"""Pictures of template, private page and reconstruction side by side."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from pfl_audit.attacks.inversion.case import Case
from pfl_audit.attacks.inversion.context import GradientContext
from pfl_audit.core.drawing import CAPTION, COVERED, covered, drawn_page
from pfl_audit.core.results import Evidence

SHOWN = 3
_GAP = 8
_SCALE = 2
_PAPER = 225


def show(context: GradientContext, method: str, case: Case, page: NDArray[np.uint8], facts: dict[str, str]) -> Evidence:
    """Keep the pages whole in the private folder, and make a picture for the report.

    A masked picture holds the empty form alone, and that only where it is public: a form of the user's own may carry
    a letterhead.

    Args:
        context: Context of the audit.
        method: Short name, for the file.
        case: With its truth.
        page: uint8 (height, width, 3), what came back.
        facts: Beside the picture.
    """
    template = case.seen.template
    picture = _side_by_side(template.pixels, case.truths[0].page, page)
    public, fields = context.public_form, [field.box for field in template.fields]
    masked = covered(_side_by_side(template.pixels), fields) if public else drawn_page()
    name = f"inversion-{method}-{case.seen.stem}"
    context.evidence.keep_page(name, picture)
    path = context.evidence.show(name, picture, masked)
    if context.redactor.reveal:
        return Evidence(title="Template, private page, and what came back", facts={**facts}, picture=path)
    return Evidence(title="What came back", facts={**facts, "picture": COVERED if public else CAPTION}, picture=path)


def _side_by_side(*panels: NDArray[np.uint8]) -> Image.Image:
    """One picture, enlarged."""
    height, width = panels[0].shape[:2]
    sheet = np.full((height, len(panels) * (width + _GAP) - _GAP, 3), _PAPER, dtype=np.uint8)
    for number, panel in enumerate(panels):
        left = number * (width + _GAP)
        sheet[:, left : left + width] = panel
    picture = Image.fromarray(sheet)
    scale = max(1, min(_SCALE, 1800 // picture.width))
    return picture.resize((picture.width * scale, height * scale), Image.Resampling.NEAREST)
