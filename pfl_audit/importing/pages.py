"""Pages of documents, read by child processes with limits of memory and time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Final
from unicodedata import category

from pfl_audit.documents.readers import DOCUMENTS
from pfl_audit.documents.readers.folder import files_below
from pfl_audit.errors import NotAuditableError, UsageError
from pfl_audit.inputs import MIB, is_regular
from pfl_audit.sandbox import Sandbox

UNREAD: Final = (
    ".gif",
    ".heic",
    ".heif",
    ".avif",
    ".jp2",
    ".svg",
    ".doc",
    ".docx",
    ".odt",
    ".rtf",
    ".xps",
    ".eml",
    ".msg",
)
"""Kinds of files that documents are kept in, and that are not read."""


@dataclass(frozen=True)
class SourceFile:
    """A document of a folder.

    Attributes:
        path: The file.
        name: Path relative to the folder, with slashes.
    """

    path: Path
    name: str


def is_documents(path: Path) -> bool:
    """Whether a path is a document, or a folder that holds one at any depth."""
    return bool(files_below(path, DOCUMENTS)) if path.is_dir() else _is_document(path)


def find_documents(path: Path, out: Path) -> list[SourceFile]:
    """Documents of a folder, at any depth, sorted by name; a document alone is a folder of one.

    Args:
        out: Output folder, whose pictures are none if it is below ``path``.

    Raises:
        NotAuditableError: There is none.
    """
    root = path if path.is_dir() else path.parent
    files = files_below(path, DOCUMENTS) if path.is_dir() else [path] if _is_document(path) else []
    whole, apart = root.resolve(), out.resolve()
    names = [file.relative_to(root) for file in files]
    names = [name for name in names if apart == whole or apart not in (whole / name).parents]
    if not names:
        raise NotAuditableError(f"{path} holds no document", f"Give a folder with {', '.join(DOCUMENTS)} files")
    return [SourceFile(root / name, name.as_posix()) for name in names]


def name_problem(name: str) -> str | None:
    """Why a document cannot be named in a table, or None."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return "its name is not valid UTF-8"
    plain = "".join(" " if category(letter) == "Zs" else letter for letter in name)  # such as in names of screenshots
    return None if plain.isprintable() else "its name has control characters"


PAGE_MEMORY = 3072 * MIB
"""Address space of a child that reads pages."""
Children = Mapping[str, Sandbox]
"""A child process for "pages", and one for "ocr"; each starts with its first call."""


def new_children() -> Children:
    """Children of one thread."""
    return {
        "pages": Sandbox("pfl_audit.importing.page_child:answer", memory=PAGE_MEMORY, seconds=25),
        "ocr": Sandbox("pfl_audit.importing.ocr_child:answer", memory=8192 * MIB, seconds=120),
    }


def require_pdf_reader(files: list[SourceFile]) -> None:
    """Check that PDF files can be read, if there are any.

    Raises:
        UsageError: pypdfium2 is missing.
    """
    if any(file.name.lower().endswith(".pdf") for file in files) and find_spec("pypdfium2") is None:
        raise UsageError("reading PDF files needs pypdfium2", "Run: pip install 'pfl-audit[documents]'")


def _is_document(path: Path) -> bool:
    return path.suffix.lower() in DOCUMENTS and is_regular(path)
