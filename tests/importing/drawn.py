"""Small documents: PDF files with and without a text layer, and pictures."""

from __future__ import annotations

import io
from pathlib import Path

from PIL import Image, ImageDraw, ImageFont
from reportlab.pdfgen import canvas


def pdf(path: Path, *pages: list[str], rotate: int = 0) -> Path:
    """A PDF file with lines of text; the top of the first line is at a tenth of the page."""
    path.parent.mkdir(parents=True, exist_ok=True)
    drawn = canvas.Canvas(str(path), pagesize=(500, 500))
    for lines in pages:
        if rotate:
            drawn.setPageRotation(rotate)
        for number, line in enumerate(lines):
            drawn.drawString(50, 440 - 20 * number, line)
        drawn.showPage()
    drawn.save()
    return path


def picture(text: str, size: tuple[int, int] = (480, 400)) -> Image.Image:
    """Large letters on white."""
    page = Image.new("L", size, 255)
    ImageDraw.Draw(page).text((40, 40), text, font=ImageFont.load_default(30), fill=0)
    return page


def scan(path: Path, text: str) -> Path:
    """A picture with letters."""
    path.parent.mkdir(parents=True, exist_ok=True)
    out = io.BytesIO()
    picture(text).save(out, "PNG")
    path.write_bytes(out.getvalue())
    return path
