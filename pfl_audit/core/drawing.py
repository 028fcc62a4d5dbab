"""Drawn pictures for masked reports, which use nothing of a private page."""

from __future__ import annotations

from collections.abc import Sequence

from PIL import Image, ImageDraw

from pfl_audit.documents.image_file import MAX_SIDE
from pfl_audit.documents.images import Box

CAPTION = "a drawing, the same for every page; --reveal shows the page"
"""What a report says beside ``drawn_page``."""
COVERED = "the empty form, with its private fields covered; --reveal shows them"
"""What a report says beside ``covered``."""

_WIDTH = 420
_FRAME = (20, 90, 200)
_SIZE = (420, 594)
_PAPER, _EDGE, _BLOCK, _COVER = (250, 250, 250), (150, 150, 150), (212, 212, 212), (120, 120, 120)
_ROW, _WORD, _GAP = 22, 44, 10
_ROWS = (3, 4, 0, 2, 5, 5, 4, 5, 5, 3, 0, 5, 4, 5, 5, 2, 0, 3, 2)
"""Blocks in each row of the drawn page."""
_FIELD = (0, 1)
"""Row and block of the drawn page that are framed, two blocks wide."""


def drawn_page() -> Image.Image:
    """A page of equal blocks with one framed: the same picture for every page, so that it identifies none."""
    picture = Image.new("RGB", _SIZE, _PAPER)
    draw = ImageDraw.Draw(picture)
    draw.rectangle((0, 0, _SIZE[0] - 1, _SIZE[1] - 1), outline=_EDGE, width=2)
    left, top = 62, 70
    for row, blocks in enumerate(_ROWS):
        for block in range(blocks):
            at = left + block * (_WORD + _GAP), top + row * (_ROW + 3)
            draw.rectangle((*at, at[0] + _WORD, at[1] + _ROW // 2), fill=_BLOCK)
    row, block = _FIELD
    at = left + block * (_WORD + _GAP), top + row * (_ROW + 3)
    end = at[0] + 2 * _WORD + _GAP, at[1] + _ROW // 2
    draw.rectangle((*at, *end), fill=_COVER)
    draw.rectangle((at[0] - 6, at[1] - 6, end[0] + 6, end[1] + 6), outline=_EDGE, width=2)
    return picture


def framed(page: Image.Image, fields: Sequence[Box]) -> Image.Image:
    """A page as it is, in the size of a report, with a frame around each field. Only for those who asked for it."""
    height = min(max(1, round(page.height * _WIDTH / page.width)), MAX_SIDE)
    picture = page.convert("RGB").resize((_WIDTH, height), Image.Resampling.LANCZOS)
    draw = ImageDraw.Draw(picture)
    for left, top, right, bottom in fields:
        corners = left * _WIDTH - 3, top * height - 3, right * _WIDTH + 3, bottom * height + 3
        draw.rectangle(corners, outline=_FRAME, width=2)
    return picture


def covered(form: Image.Image, fields: Sequence[Box]) -> Image.Image:
    """A form that everybody may see, with its private fields painted over."""
    picture = form.convert("RGB")
    draw = ImageDraw.Draw(picture)
    width, height = picture.size
    for left, top, right, bottom in fields:
        draw.rectangle((left * width, top * height, right * width - 1, bottom * height - 1), fill=_COVER)
    return picture
