"""Which company issued a document of PFL-DocVQA: what its map files say."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pfl_audit.errors import AuditError
from pfl_audit.files import read_json

_LIMIT = 1 << 30


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
    def read(cls, root: Path) -> ProviderMaps:
        """Collect every known map file below ``root``.

        Raises:
            AuditError: A map file is not what its name says.
        """
        by_document: dict[str, str] = {}
        by_row: dict[tuple[str, int], str] = {}
        for path in sorted(root.rglob("*.json")):
            if path.name in ("doc2provider.json", "red_doc2provider.json"):
                by_document |= dict(_document_pairs(_mapping(path)))
            elif path.name == "provider2docs.json":
                by_document |= {str(doc): provider for provider, docs in _mapping(path).items() for doc in docs}
            elif path.name == "data_points.json":
                for client, providers in _mapping(path).items():
                    by_row |= _rows(client, providers)
            elif path.name == "centralized_data_points.json":
                by_row |= _rows("train", _mapping(path))
        return cls(by_document, by_row)

    def provider(self, record: Mapping[str, Any], file: Path, row: int) -> str:
        """The provider of a record.

        Args:
            record: With ``image_name``, and perhaps ``provider`` and ``document``.
            file: The imdb file that it stands in.
            row: Its absolute row there.

        Raises:
            ValueError: No field and no map names it.
        """
        named = record.get("provider")
        if isinstance(named, str) and named.strip():
            return named
        document = str(record.get("document") or record["image_name"].split("_", 1)[0])
        client = re.search(r"client_\d+|train$", file.stem)
        known = self.by_document.get(document) or self.by_row.get((client.group() if client else "", row))
        if known is None:
            raise ValueError("no map names the provider of its document")
        return known


def _document_pairs(mapping: Mapping[str, Any]) -> list[tuple[str, str]]:
    pairs = ((doc, value.get("provider") if isinstance(value, dict) else value) for doc, value in mapping.items())
    return [(doc, provider) for doc, provider in pairs if isinstance(provider, str)]


def _rows(client: str, providers: Mapping[str, Any]) -> dict[tuple[str, int], str]:
    return {(client, int(row)): provider for provider, rows in providers.items() for row in rows}


def _mapping(path: Path) -> dict[str, Any]:
    value = read_json(path, limit=_LIMIT)
    if not isinstance(value, dict):
        raise AuditError(f"{path} is not a JSON object", "Get it from the data set again")
    return value
