"""Rows of parquet and Arrow files as plain data; runs in the sandbox (``arrow_rows.py``), where pyarrow may fail."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from mmap import ACCESS_READ, mmap
from typing import Any, BinaryIO

import pyarrow as pa

from pfl_audit.inputs import MIB
from pfl_audit.sandbox import RefusedError

MAX_ROWS = 1_000_000
MAX_ROW = 3 * MIB
"""Characters of the texts of a row, pictures not counted; a number counts as eight."""
MAX_METADATA = 8 * MIB
MAX_BATCH = 1_024 * MIB
"""Bytes that a record batch or a row group may declare for the columns that are read."""
_BATCH = 16


def answer(action: str, name: str, file: BinaryIO, start: int = 0, columns: Sequence[str] = ()) -> Any:
    """Answer a call of the parent.

    Args:
        action: "head" for the number of rows, the columns and the metadata of a file; "rows" for the next rows with
            their numbers, which begin at ``start``; "image" for the bytes of the picture of row ``start``.
        name: Name of the file; it stays open until another one is asked for.
        file: Parquet file, or Arrow file or stream.
        start: Number of a row.
        columns: Columns to read; the first of "image".

    Raises:
        RefusedError: A limit is exceeded.
    """
    columns = tuple(columns)
    if name not in _opened:
        _opened.clear()
        _opened[name] = _Parquet(file) if name.endswith(".parquet") else _Arrow(file)
    opened = _opened[name]
    if action == "head":
        return opened.head()
    if action == "rows":
        batch = opened.batch(start, columns)
        return [_row(batch, at, columns) for at in range(batch.num_rows)]
    cell = opened.batch(start, columns, 1).column(0)[0].as_py()
    return cell["bytes"] if isinstance(cell, dict) else cell


_opened: dict[str, Any] = {}


class _Parquet:
    def __init__(self, file: BinaryIO) -> None:
        import pyarrow.parquet as parquet

        self._file = parquet.ParquetFile(file, thrift_string_size_limit=MAX_METADATA)
        self._at = -1
        self._columns: tuple[str, ...] = ()
        self._rows: Any = iter(())

    def head(self) -> dict[str, Any]:
        return _head(self._file.metadata.num_rows, self._file.schema_arrow)

    def batch(self, start: int, columns: tuple[str, ...], most: int = _BATCH) -> Any:
        """Rows from ``start``; consecutive calls read on where the last one ended."""
        if (start, columns) != (self._at, self._columns):
            group, first = self._group(start)
            self._check(group, columns)
            self._rows = self._file.iter_batches(
                most, row_groups=range(group, self._file.num_row_groups), columns=list(columns), use_threads=False
            )
            skipped, found = start - first, next(self._rows)
            while skipped >= found.num_rows:
                skipped, found = skipped - found.num_rows, next(self._rows)
            found = found.slice(skipped)
        else:
            found = next(self._rows)
        self._at, self._columns = start + found.num_rows, columns
        return found

    def _group(self, row: int) -> tuple[int, int]:
        first = 0
        for group in range(self._file.num_row_groups):
            count = self._file.metadata.row_group(group).num_rows
            if row < first + count:
                return group, first
            first += count
        raise RefusedError("it holds fewer rows than its header declares")

    def _check(self, group: int, columns: tuple[str, ...]) -> None:
        found = self._file.metadata.row_group(group)
        chunks = [found.column(at) for at in range(found.num_columns)]
        size = sum(one.total_uncompressed_size for one in chunks if one.path_in_schema.split(".")[0] in columns)
        if not 0 <= size <= MAX_BATCH:
            raise RefusedError(f"a row group is larger than {MAX_BATCH // MIB} MiB")


class _Arrow:
    def __init__(self, file: BinaryIO) -> None:
        source = pa.BufferReader(pa.py_buffer(mmap(file.fileno(), 0, access=ACCESS_READ)))
        magic = source.read(6)
        source.seek(0)
        self._table = (pa.ipc.open_file if magic == b"ARROW1" else pa.ipc.open_stream)(source).read_all()
        self._table.validate(full=True)  # offsets beyond a buffer would be read as they are

    def head(self) -> dict[str, Any]:
        return _head(self._table.num_rows, self._table.schema)

    def batch(self, start: int, columns: tuple[str, ...], most: int = _BATCH) -> Any:
        return self._table.slice(start, most).select(list(columns)).combine_chunks()


def _head(rows: int, schema: Any) -> dict[str, Any]:
    if not 0 <= rows <= MAX_ROWS:
        raise RefusedError(f"it holds more than {MAX_ROWS:,} rows")
    metadata = (schema.metadata or {}).get(b"huggingface", b"")
    return {"rows": rows, "columns": list(schema.names), "metadata": metadata[:MAX_METADATA].decode("utf-8", "replace")}


def _row(batch: Any, at: int, columns: tuple[str, ...]) -> dict[str, Any] | str:
    """A row as plain data, its pictures as their digests, or the reason why it cannot be used."""
    left = [MAX_ROW]
    try:
        return {name: _plain(batch.column(number)[at].as_py(), left) for number, name in enumerate(columns)}
    except (UnicodeDecodeError, RefusedError, RecursionError) as error:
        return str(error) if isinstance(error, RefusedError) else "a text in it is not valid Unicode"


def _plain(value: Any, left: list[int]) -> Any:
    if isinstance(value, bytes):
        return {"sha256": hashlib.sha256(value).hexdigest(), "size": len(value)}
    left[0] -= len(value) if isinstance(value, str) else 8
    if left[0] < 0:
        raise RefusedError(f"the row is larger than {MAX_ROW // MIB} MiB")
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list | tuple):
        return [_plain(one, left) for one in value]
    if isinstance(value, dict):
        return {str(name): _plain(one, left) for name, one in value.items()}
    raise RefusedError("a column holds values of another type (texts, numbers, lists and pictures are read)")
