"""Provider maps of PFL-DocVQA: the company that issued each document."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pfl_audit.documents.record_validation import MAX_NAME, RecordError, field_of, identifier, text
from pfl_audit.errors import AuditError
from pfl_audit.inputs import MIB, read_json

MAX_BYTES = 64 * MIB
"""Largest map file; those of PFL-DocVQA, with 110,000 pages, have fewer than 10 MB."""
_REMEDY = "Get it from the data set again"


@dataclass(frozen=True)
class ProviderMaps:
    """Document to provider, and row of a training file to provider.

    Attributes:
        by_document: Document id (the page name before its first underscore) to provider name.
        by_row: (client, absolute row) to provider name; the header is row 0.
    """

    by_document: Mapping[str, str]
    by_row: Mapping[tuple[str, int], str]

    @classmethod
    def read(cls, files: Iterable[Path]) -> ProviderMaps:
        """Read all map files among ``files``.

        Args:
            files: Candidate files, recognised by name; later entries override earlier ones.

        Raises:
            AuditError: A map file does not have the format of its name.
        """
        by_document: dict[str, str] = {}
        by_row: dict[tuple[str, int], str] = {}
        for path in files:
            if path.name in ("doc2provider.json", "red_doc2provider.json"):
                by_document |= _providers(path)
            elif path.name == "provider2docs.json":
                by_document |= _documents(path)
            elif path.name == "data_points.json":
                for client, providers in _mapping(path).items():
                    by_row |= _rows(path, client, providers)
            elif path.name == "centralized_data_points.json":
                by_row |= _rows(path, "train", _mapping(path))
        return cls(by_document, by_row)

    def provider(self, record: Mapping[str, Any], file: Path, row: int) -> str:
        """Provider of a record.

        Args:
            record: Record with ``image_name``, and optionally ``provider`` and ``document``.
            file: imdb file of the record.
            row: Absolute row in the file.

        Raises:
            RecordError: No field and no map has the provider, or its name cannot be used.
        """
        named = record.get("provider")
        if isinstance(named, str) and named.strip():
            return text(named, "provider", MAX_NAME)
        document = identifier(record.get("document"), "document") or field_of(record, "image_name").split("_", 1)[0]
        client = re.search(r"client_\d+|train$", file.stem)
        known = self.by_document.get(document) or self.by_row.get((client.group() if client else "", row))
        if known is None:
            raise RecordError("no map has the provider of its document")
        return text(known, "provider", MAX_NAME)


def _providers(path: Path) -> dict[str, str]:
    """Document to provider, without documents of unknown provider (null)."""
    found: dict[str, str] = {}
    for document, value in _mapping(path).items():
        provider = value.get("provider") if isinstance(value, dict) else value
        if isinstance(provider, str):
            found[document] = provider
        elif provider is not None:
            raise _malformed(path, "a document's provider is not a text")
    return found


def _documents(path: Path) -> dict[str, str]:
    found: dict[str, str] = {}
    for provider, documents in _mapping(path).items():
        if not isinstance(documents, list) or not all(isinstance(name, str | int) for name in documents):
            raise _malformed(path, "a provider's documents are not a list of names")
        found |= {str(name): provider for name in documents}
    return found


def _rows(path: Path, client: str, providers: Any) -> dict[tuple[str, int], str]:
    if not isinstance(providers, dict):
        raise _malformed(path, "a client's providers are not a JSON object")
    found: dict[tuple[str, int], str] = {}
    for provider, rows in providers.items():
        if not isinstance(rows, list) or not all(_is_row(row) for row in rows):
            raise _malformed(path, "a provider's rows are not a list of whole numbers")
        found |= {(client, int(row)): provider for row in rows}
    return found


def _is_row(row: Any) -> bool:
    return isinstance(row, int) or (isinstance(row, str) and row.isdecimal() and len(row) < 20)


def _mapping(path: Path) -> dict[str, Any]:
    value = read_json(path, limit=MAX_BYTES, remedy=_REMEDY)
    if not isinstance(value, dict):
        raise _malformed(path, "it is not a JSON object")
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise _malformed(path, "a text in it is not valid Unicode (a lone surrogate)") from error
    except RecursionError as error:
        raise _malformed(path, "it is nested too deeply") from error
    return value


def _malformed(path: Path, problem: str) -> AuditError:
    return AuditError(f"{path} is not a provider map: {problem}", _REMEDY)
