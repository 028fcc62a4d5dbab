"""One HTML page with the pages of the documents and the proposed values, for a person to look at."""

from __future__ import annotations

import base64
import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pfl_audit.documents.images import Box, PageImage
from pfl_audit.errors import UnanswerableError
from pfl_audit.files import PAGE_MARK, write_page
from pfl_audit.importing.proposals import Proposal
from pfl_audit.importing.reading import ReadPage

FILE_NAME: Final = "contact-sheet.html"
MOST_PAGES = 2_000
_WIDTH, _QUALITY = 620, 55


@dataclass(frozen=True)
class _Sheet:
    name: str
    picture: str
    boxes: list[tuple[str, Box]]
    values: list[tuple[str, str]]


def write_contact_sheet(
    path: Path, documents: Mapping[str, Sequence[ReadPage]], proposals: Mapping[str, Sequence[Proposal]]
) -> int:
    """Write the page; only its owner can read it, and it loads nothing and runs no script.

    Args:
        path: HTML file; a page of pfl-audit is overwritten.
        documents: Document to its pages.
        proposals: Document to its proposed values.

    Returns:
        Number of pages that are left out because there are more than MOST_PAGES.
    """
    from jinja2 import Environment, PackageLoader

    wanted = list(_wanted(documents, proposals))
    sheets = [_sheet(*one) for one in wanted[:MOST_PAGES]]
    template = Environment(loader=PackageLoader("pfl_audit.importing"), autoescape=True).get_template("sheet.html")
    html = template.render(mark=PAGE_MARK, sheets=sheets, left_out=len(wanted) - len(sheets))
    write_page(path, html)
    return len(wanted) - len(sheets)


def _wanted(
    documents: Mapping[str, Sequence[ReadPage]], proposals: Mapping[str, Sequence[Proposal]]
) -> Iterator[tuple[str, ReadPage, list[Proposal]]]:
    """The first page of each document, and every other with a value: document, page and its proposals."""
    for name, pages in documents.items():
        for at, page in enumerate(pages):
            here = [one for one in proposals.get(name, ()) if one.page == at]
            if here or not at:
                yield name, page, here


def _sheet(name: str, page: ReadPage, here: Sequence[Proposal]) -> _Sheet:
    boxes = [(one.key, _around(page, one.words)) for one in here]
    return _Sheet(f"{name}, page {page.number}", _thumbnail(page), boxes, [(one.key, one.value) for one in here])


def _around(page: ReadPage, words: tuple[int, int]) -> Box:
    """Left, top, width and height of words, in percent."""
    boxes = page.boxes[words[0] : words[1]]
    left, top = (float(value) for value in boxes[:, :2].min(axis=0))
    right, low = (float(value) for value in boxes[:, 2:].max(axis=0))
    return 100 * left, 100 * top, 100 * (right - left), 100 * (low - top)


def _thumbnail(page: ReadPage) -> str:
    out = io.BytesIO()
    try:
        picture = PageImage(page.picture).open()
    except UnanswerableError:
        return ""
    picture.thumbnail((_WIDTH, 2 * _WIDTH))
    picture.save(out, "JPEG", quality=_QUALITY)
    return base64.b64encode(out.getvalue()).decode()
