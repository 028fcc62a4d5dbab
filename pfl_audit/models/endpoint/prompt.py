"""What is sent about a question: the prompt, and the picture of the page."""

from __future__ import annotations

import base64
import io
from dataclasses import dataclass
from math import ceil
from typing import Final

from pfl_audit.documents.document import Query
from pfl_audit.documents.images import PageImage
from pfl_audit.models.endpoint import Sent
from pfl_audit.models.prompt_template import fill

TEMPLATE: Final = "{words}\n\n{question}\nAnswer with the value alone, as it is written on the page."
"""Prompt of a question; ``{words}`` is empty where only the picture is sent."""
_QUALITY = 90
"""Quality of JPEG."""


@dataclass(frozen=True)
class Prompt:
    """Text of a question, and the page's picture.

    Attributes:
        text: Prompt.
        picture: Page image to send, or None.
        side: Longest side of the picture as it is sent, in pixels.
    """

    text: str
    picture: PageImage | None
    side: int

    def size(self) -> tuple[int, int] | None:
        """Width and height of the picture as it is sent, from the header of its file; None without one.

        Raises:
            UnanswerableError: The picture cannot be read.
        """
        return _fit(self.picture.size(), self.side) if self.picture is not None else None

    def content(self) -> str | list[dict[str, object]]:
        """Content of a chat message: plain text, or the parts with the picture first.

        Raises:
            UnanswerableError: The picture cannot be read.
        """
        if self.picture is None:
            return self.text
        url = f"data:image/jpeg;base64,{base64.b64encode(_jpeg(self.picture, self.side)).decode()}"
        return [{"type": "image_url", "image_url": {"url": url}}, {"type": "text", "text": self.text}]


def prompt_of(query: Query, sent: Sent, side: int, template: str = TEMPLATE) -> Prompt:
    """The prompt of a question.

    Args:
        sent: Whether picture, words or both are sent; a page without a picture sends its words.
        side: Longest side of the picture, in pixels.
    """
    page = query.document
    picture = page.image if sent != "words" else None
    words = "" if sent == "picture" and picture is not None else " ".join(page.words)
    return Prompt(fill(template, query.question, words).strip(), picture, side)


def _fit(size: tuple[int, int], side: int) -> tuple[int, int]:
    share = min(1.0, side / max(size))
    return max(1, ceil(size[0] * share)), max(1, ceil(size[1] * share))


def _jpeg(picture: PageImage, side: int) -> bytes:
    page, file = picture.open(), io.BytesIO()
    if (size := _fit(page.size, side)) != page.size:
        page = page.resize(size)
    page.save(file, "JPEG", quality=_QUALITY)
    return file.getvalue()
