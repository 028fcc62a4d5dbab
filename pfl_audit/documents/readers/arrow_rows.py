"""Parquet and Arrow files, read by a child process with limits of memory and time, some rows at a time."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from pfl_audit.documents.image_file import MAX_FILE
from pfl_audit.errors import AuditError, UsageError
from pfl_audit.inputs import MIB, open_input
from pfl_audit.sandbox import Sandbox, SandboxError

SUFFIXES: Final = (".parquet", ".arrow")
_CHILD: Final = Sandbox("pfl_audit.documents.readers.arrow_child:answer", memory=8 << 30, seconds=60)
"""For all files: one for each would start with nearly every picture. pyarrow maps or reserves address space rather than
filling it."""

_REMEDY: Final = "Get it from the data set again"


@dataclass(frozen=True)
class StoredImage:
    """A picture in a row of a file, read when it is opened.

    Attributes:
        file: Parquet or Arrow file.
        row: Number of the row.
        column: Name of the column.
        sha256: Digest of the bytes, as found when the row was read.
    """

    file: Path
    row: int
    column: str
    sha256: str

    def read(self) -> bytes:
        """Bytes of the picture.

        Raises:
            AuditError: The file cannot be read, or the picture is larger than MAX_FILE.
        """
        try:
            data = call("image", self.file, self.row, (self.column,))
        except AuditError as error:  # reports name no file
            raise AuditError(error.problem.removeprefix(f"{self.file} "), error.remedy) from error
        if not isinstance(data, bytes) or len(data) > MAX_FILE:
            raise AuditError(f"is no picture of at most {MAX_FILE // MIB} MiB", "Get the data set again")
        return data


def head(file: Path) -> tuple[int, list[str], str]:
    """Number of rows, names of the columns, and the metadata of `datasets` (JSON or empty).

    Raises:
        AuditError: The file cannot be read.
        UsageError: pyarrow is missing.
    """
    match call("head", file):
        case {"rows": int() as count, "columns": list() as columns, "metadata": str() as metadata}:
            if {*map(type, columns)} <= {str}:
                return count, columns, metadata
    raise AuditError(f"{file} cannot be read: it is damaged", _REMEDY)


def rows(file: Path, count: int, columns: Collection[str]) -> Iterator[dict[str, Any] | str]:
    """Rows of a file, or the reason why one cannot be used; bytes are {"sha256", "size"}.

    Raises:
        AuditError: The file cannot be read on.
    """
    at = 0
    while at < count:
        batch = call("rows", file, at, tuple(columns))
        if not (isinstance(batch, list) and batch):
            raise AuditError(f"{file} cannot be read: it holds fewer rows than its header declares", _REMEDY)
        yield from batch
        at += len(batch)


def call(action: str, file: Path, start: int = 0, columns: tuple[str, ...] = ()) -> Any:
    """Call the child process of this one.

    Raises:
        AuditError: The file cannot be read.
        UsageError: pyarrow is missing.
    """
    if find_spec("pyarrow") is None:
        raise UsageError(f"reading {file} needs pyarrow", "Run: pip install 'pfl-audit[documents]'")
    name = str(file.resolve())
    try:
        with open_input(file, limit=None) as opened:
            return _CHILD.call(action, name, opened, start, columns)
    except SandboxError as error:
        reason = error.reason("it is damaged, or no file of its kind")
        raise AuditError(f"{file} cannot be read: {reason}", _REMEDY) from error
