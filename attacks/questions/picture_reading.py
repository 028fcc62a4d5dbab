"""Pages' pictures read by OCR before a value is taken off them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pfl_audit.attacks.questions.engine import QueryEngine
from pfl_audit.documents.document import Document
from pfl_audit.documents.scrubbing.ocr_lines import OcrLine, ReadOcrLines
from pfl_audit.models.page_reader import lines_query, picture_lines


def line_reader(engine: QueryEngine | None) -> ReadOcrLines | None:
    """Ask an OCR engine for the lines of pages; answers are kept in the store like all others.

    Args:
        engine: Asks a PageReader, or None where the audit has none.

    Returns:
        A reader for ``scrubbed_questions``; pages whose picture cannot be read are left out of what it returns.
    """
    if engine is None:
        return None

    def read(documents: Sequence[Document]) -> Mapping[str, Sequence[OcrLine]]:
        queries = {document.id: lines_query(document) for document in documents}
        found = engine.ask(list(queries.values()), "first look at the pictures")
        return {page: picture_lines(found[query].answer) for page, query in queries.items() if query in found}

    return read
