"""OCR as a DocumentModel: the answer to a page is the text in its picture."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from typing import Any

import numpy as np

from pfl_audit.documents.document import Document, Query
from pfl_audit.documents.scrubbing.ocr_lines import OcrLine
from pfl_audit.files import sha256_json
from pfl_audit.models.openings import unchanged
from pfl_audit.models.protocol import Capability, Response
from pfl_audit.models.rapid_ocr import open_rapidocr
from pfl_audit.version import __version__

_WHERE = "Where is each line?"
"""The question for lines with their boxes."""


class PageReader:
    """rapidocr with the weights that come in its package, as a DocumentModel."""

    family = "ocr"
    capabilities = frozenset({Capability.ANSWER, Capability.LIVE})

    def __init__(self) -> None:
        self._engine = open_rapidocr()

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the package versions, which include the weights."""
        return sha256_json([self.family, version("rapidocr"), version("onnxruntime")])

    def describe(self) -> dict[str, Any]:
        """Facts for the report."""
        notes = [f"rapidocr {version('rapidocr')}"]
        return {"family": self.family, "path": "", "sha256": self.fingerprint, "parameters": None, "notes": notes}

    def cost(self, query: Query) -> int:
        """The same for every page."""
        return 1

    def batch_size(self, cost: int) -> int:
        """One page, so that a killed run loses at most one."""
        return 1

    def respond(self, queries: Sequence[Query]) -> list[Response]:
        """Read the pictures; a line of a page is a line of the answer, or JSON with its box where that is asked for."""
        return [self._respond(query) for query in queries]

    def _respond(self, query: Query) -> Response:
        lines = self._lines(query)
        if query.question == _WHERE:
            return Response(json.dumps([[line.text, *line.box] for line in lines]))
        return Response("\n".join(line.text for line in lines))

    def _lines(self, query: Query) -> list[OcrLine]:
        if query.document.image is None:
            return []
        page = query.document.image.open()
        pixels = np.asarray(page)[:, :, ::-1]  # rapidocr takes BGR
        found: Any = self._engine(np.ascontiguousarray(pixels))
        if not found.txts:
            return []
        corners = np.asarray(found.boxes, dtype=float) / page.size  # shape (lines, 4, 2)
        edges = np.concatenate([corners.min(axis=1), corners.max(axis=1)], axis=1).clip(0, 1)
        boxes = [(float(left), float(top), float(right), float(low)) for left, top, right, low in edges.round(5)]
        return [OcrLine(text, box) for text, box in zip(found.txts, boxes, strict=True)]


@dataclass(frozen=True)
class PageReaderOpening:
    """How a reader was opened; as of Opening."""

    fingerprint: str
    version: str = __version__

    def open(self) -> PageReader:
        """As of Opening."""
        return unchanged("the OCR engine", PageReader(), self.fingerprint)


def picture_query(query: Query) -> Query:
    """Ask for the picture of a query's page; words and question play no part."""
    page = replace(query.document, words=(), boxes=query.document.boxes[:0])
    return Query(f"{query.id}/picture", page, "", ("",), query.key)


def lines_query(document: Document) -> Query:
    """Ask for the lines of a page's picture with their boxes; its words play no part."""
    page = replace(document, words=(), boxes=document.boxes[:0])
    return Query(f"{document.id}/picture/lines", page, _WHERE, ("",))


def picture_lines(answer: str) -> list[OcrLine]:
    """Lines that were answered to ``lines_query``; none from a reader that does not say where they are."""
    try:
        rows = json.loads(answer)
    except ValueError:
        return []
    return [OcrLine(text, (left, top, right, low)) for text, left, top, right, low in rows]
