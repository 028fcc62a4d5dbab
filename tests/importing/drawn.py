"""Small documents: PDF files with and without a text layer, and pictures."""

from __future__ import annotations

import io
from pathlib import Path

from PIL import Image, ImageDraw, ImageFont
from reportlab.lib.utils import ImageReader
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


def form(path: Path, fields: dict[str, str]) -> Path:
    """A PDF form whose labels are printed and whose values are in text fields."""
    drawn = canvas.Canvas(str(path), pagesize=(500, 500))
    for number, (label, value) in enumerate(fields.items()):
        low = 440 - 40 * number
        drawn.drawString(50, low, label)
        drawn.acroForm.textfield(name=f"field-{number}", value=value, x=200, y=low - 6, width=250, height=24)
    drawn.save()
    return path


def hidden(path: Path, how: str) -> Path:
    """Three printed words, and two hidden ones."""
    drawn = canvas.Canvas(str(path), pagesize=(500, 500))
    drawn.drawString(50, 440, "one two three")
    if how == "outside a clip":
        clip = drawn.beginPath()
        clip.rect(0, 0, 10, 10)
        drawn.clipPath(clip, stroke=0, fill=0)
    text = drawn.beginText(50, 300)
    text.setTextRenderMode(3 if how == "render mode" else 0)
    text.setFillGray({"white": 1.0, "camouflage": 0.99}.get(how, 0.0))
    text.textOut("secret name")
    drawn.drawText(text)
    if how in ("bar", "white bar"):
        drawn.setFillGray(0.0 if how == "bar" else 1.0)
        drawn.rect(40, 290, 120, 30, fill=1, stroke=0)
    drawn.save()
    return path


def stamped(path: Path, scanned: str, stamp: str, how: str = "whole") -> Path:
    """A scan of the whole page, as it is, in strips or in a form object, with a line of text over it."""
    drawn = canvas.Canvas(str(path), pagesize=(480, 400))
    page = picture(scanned)
    if how == "strips":
        for top in range(0, 400, 50):
            drawn.drawImage(ImageReader(page.crop((0, top, 480, top + 50))), 0, 350 - top, 480, 50)
    elif how == "form":
        drawn.beginForm("scan", 0, 0, 48, 40)
        drawn.drawImage(ImageReader(page), 0, 0, 48, 40)
        drawn.endForm()
        drawn.scale(10, 10)
        drawn.doForm("scan")
        drawn.scale(0.1, 0.1)
    else:
        drawn.drawImage(ImageReader(page), 0, 0, 480, 400)
    drawn.drawString(200, 20, stamp)
    drawn.save()
    return path


def letterhead(path: Path, line: str) -> Path:
    """A page inside a form object: a line of text, a small logo, and a drawing."""
    drawn = canvas.Canvas(str(path), pagesize=(480, 400))
    drawn.beginForm("page", 0, 0, 480, 400)
    drawn.drawImage(ImageReader(picture("LOGO", (120, 100))), 10, 330, 60, 50)
    drawn.drawString(200, 20, line)
    drawn.rect(50, 100, 300, 100, fill=1)
    drawn.endForm()
    drawn.doForm("page")
    drawn.save()
    return path
