"""A page of a PDF file to draw on, with the interface of `Canvas`."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

from pfl_audit.documents.document import Boxes
from pfl_audit.documents.synthetic.canvas import HEIGHT, WIDTH, Canvas, Colour, Face, font_file, load_font
from pfl_audit.errors import UsageError


class PdfCanvas(Canvas):
    """A white page with vector text; the page has as many points as `Canvas` has pixels.

    Raises:
        UsageError: reportlab is missing.
    """

    def __init__(self) -> None:
        super().__init__()
        try:
            from reportlab.pdfgen import canvas
        except ImportError as error:
            raise UsageError("drawing PDF files needs reportlab", "Run: pip install 'pfl-audit[documents]'") from error
        self._out = io.BytesIO()
        self._pdf: Any = canvas.Canvas(self._out, pagesize=(WIDTH, HEIGHT), invariant=1)
        self.draw: Any = _Shapes(self._pdf)

    def _write(self, position: tuple[float, float], text: str, face: Face, colour: Colour, *, readable: bool) -> None:
        """Draw a line of text; one that OCR does not read is drawn as outlines."""
        left, top = position
        self._pdf.setFillColorRGB(*(value / 255 for value in colour))
        if readable:
            self._pdf.setFont(_register(face.family, face.bold), face.size)
            self._pdf.drawString(left, HEIGHT - top - face.size, text)
            self.words += text.split()
        else:
            self._picture(left, top, text, face, colour)

    def boxes(self) -> Boxes:
        """Not recorded: a reader of the file finds them."""
        raise AttributeError("boxes")

    def pdf(self) -> bytes:
        """The file."""
        self._pdf.showPage()
        self._pdf.save()
        return self._out.getvalue()

    def _picture(self, left: float, top: float, text: str, face: Face, colour: Colour) -> None:
        """Text as a picture, which no text layer holds."""
        from PIL import Image, ImageDraw
        from reportlab.lib.utils import ImageReader

        scale = 4
        font = load_font(face.family, face.size * scale, face.bold)
        picture = Image.new("RGB", (int(font.getlength(text)) + scale, face.size * scale * 3 // 2), (255, 255, 255))
        ImageDraw.Draw(picture).text((0, 0), text, font=font, fill=colour)
        width, height = picture.width / scale, picture.height / scale
        self._pdf.drawImage(ImageReader(picture), left, HEIGHT - top - height, width, height)


class _Shapes:
    """The shapes of Pillow's ImageDraw that invoices use."""

    def __init__(self, pdf: Any) -> None:
        self._pdf = pdf

    def rectangle(
        self, box: Sequence[float], fill: Colour | None = None, outline: Colour | None = None, width: int = 1
    ) -> None:
        left, top, right, low = box
        self._paint(fill, outline, width)
        self._pdf.rect(left, HEIGHT - low, right - left, low - top, stroke=outline is not None, fill=fill is not None)

    def ellipse(
        self, box: Sequence[float], fill: Colour | None = None, outline: Colour | None = None, width: int = 1
    ) -> None:
        left, top, right, low = box
        self._paint(fill, outline, width)
        self._pdf.ellipse(left, HEIGHT - low, right, HEIGHT - top, stroke=outline is not None, fill=fill is not None)

    def line(self, ends: Sequence[float], fill: Colour, width: int = 1) -> None:
        self._paint(None, fill, width)
        self._pdf.line(ends[0], HEIGHT - ends[1], ends[2], HEIGHT - ends[3])

    def polygon(
        self, corners: Sequence[tuple[float, float]], fill: Colour | None = None, outline: Colour | None = None
    ) -> None:
        self._paint(fill, outline, 1)
        path = self._pdf.beginPath()
        path.moveTo(corners[0][0], HEIGHT - corners[0][1])
        for x, y in corners[1:]:
            path.lineTo(x, HEIGHT - y)
        path.close()
        self._pdf.drawPath(path, stroke=outline is not None, fill=fill is not None)

    def _paint(self, fill: Colour | None, outline: Colour | None, width: int) -> None:
        if fill is not None:
            self._pdf.setFillColorRGB(*(value / 255 for value in fill))
        if outline is not None:
            self._pdf.setStrokeColorRGB(*(value / 255 for value in outline))
        self._pdf.setLineWidth(width)


def _register(family: str, bold: bool) -> str:
    """Name of an embedded font."""
    from reportlab.pdfbase import pdfmetrics
    from reportlab.pdfbase.ttfonts import TTFont

    name = f"{family}-Bold" if bold else family
    if name not in pdfmetrics.getRegisteredFontNames():
        pdfmetrics.registerFont(TTFont(name, str(font_file(family, bold))))
    return name
