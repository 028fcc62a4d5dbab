"""OCR as somebody who can be asked: the answer to a page is what its picture says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from importlib.metadata import version
from typing import Any

import numpy as np

from pfl_audit.documents.document import Query
from pfl_audit.files import sha256_json
from pfl_audit.models.protocol import Capability, Response
from pfl_audit.models.rapid_ocr import open_rapidocr


class PageReader:
    """rapidocr with the weights that come in its package, as a DocumentModel.

    Raises:
        UsageError: It is not installed.
    """

    family = "ocr"
    capabilities = frozenset({Capability.ANSWER, Capability.LIVE})

    def __init__(self) -> None:
        self._engine = open_rapidocr()

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the versions, which bring the weights."""
        return sha256_json([self.family, version("rapidocr"), version("onnxruntime")])

    def describe(self) -> dict[str, Any]:
        """Facts for the report."""
        notes = [f"rapidocr {version('rapidocr')}"]
        return {"family": self.family, "path": "", "sha256": self.fingerprint, "parameters": None, "notes": notes}

    def cost(self, query: Query) -> int:
        """Every page is the same."""
        return 1

    def batch_size(self, cost: int) -> int:
        """One, so that a killed run loses one page."""
        return 1

    def respond(self, queries: Sequence[Query]) -> list[Response]:
        """Read the pictures; a line of a page is a line of the answer."""
        return [Response("\n".join(self._lines(query))) for query in queries]

    def _lines(self, query: Query) -> Sequence[str]:
        if query.document.image is None:
            return ()
        pixels = np.asarray(query.document.image.open())[:, :, ::-1]  # rapidocr takes BGR
        found: Any = self._engine(np.ascontiguousarray(pixels))
        return found.txts or ()


def picture_query(query: Query) -> Query:
    """Ask for the picture of a query's page; words and question play no part."""
    page = replace(query.document, words=(), boxes=query.document.boxes[:0])
    return Query(f"{query.id}/picture", page, "", ("",), query.key)
