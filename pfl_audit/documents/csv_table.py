"""Tables from outside as CSV: rows by their numbers, and cells by the names of their columns."""

from __future__ import annotations

import contextlib
import csv
import io
import re
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Final

from pfl_audit.errors import AuditError
from pfl_audit.inputs import MIB, read_bytes

MAX_FILE: Final = 64 * MIB
MAX_ROWS: Final = 200_000
MAX_COLUMNS: Final = 500
FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")
"""First characters of a cell that spreadsheets take for a formula."""
_WESTERN: Final = "ÀÁÂÃÄÅÆÇÈÉÊËÌÍÎÏÑÒÓÔÕÖØÙÚÛÜÝßàáâãäåæçèéêëìíîïñòóôõöøùúûüýÿŒœŠšŽžŸ€£§°º«»„“”‘’–—…·¡¿´"
_NOT_WESTERN: Final = re.compile(rf"[^\x00-\x7f{_WESTERN}\xa0]|[ÃÂ][^a-zA-Z\s]|[^\x00-\x7f\W]{{3}}")
"""A sign that western text hardly has, UTF-8 that was cut, or three accented letters in a row."""
_STATED: Final = re.compile(r'"?sep=([,;\t])"?[,;\t]*\r?(?:\n|$)', re.IGNORECASE)
"""First line by which Excel knows the delimiter; it is not shown and not counted as a row."""


def csv_rows(path: Path, remedy: str) -> Iterator[list[str]]:
    """Rows of a CSV file with commas, semicolons or tabs, in UTF-8, or in Windows-1252 as Excel saves it in the West.

    The first line may state the delimiter (``sep=;``).

    Args:
        remedy: Remedy for a file that is none.

    Raises:
        UsageError: The file does not exist.
        AuditError: It is no CSV file, or larger than the limits.
    """
    content = _decoded(path, read_bytes(path, limit=MAX_FILE, remedy=remedy), remedy)
    if "\0" in content:
        raise AuditError(f"{path} is no CSV file: it has zero bytes", remedy)
    if stated := _STATED.match(content):
        content, delimiter = content[stated.end() :], stated[1]
    else:
        delimiter = max(",;\t", key=content.split("\n", 1)[0].count)
    reader = csv.reader(io.StringIO(content, newline=""), delimiter=delimiter, strict=True)
    try:
        for count, row in enumerate(reader):
            if count > MAX_ROWS or len(row) > MAX_COLUMNS:
                raise AuditError(
                    f"{path} has more than {MAX_ROWS:,} rows or {MAX_COLUMNS} columns", "Give a smaller table"
                )
            if row or count:  # blank rows count, as they do for who looks for a row
                yield row
    except csv.Error as error:
        raise AuditError(f"{path} row {reader.line_num} is no row of a CSV file", remedy) from error


def _decoded(path: Path, data: bytes, remedy: str) -> str:
    with contextlib.suppress(UnicodeDecodeError):
        return data.decode("utf-8-sig")
    with contextlib.suppress(UnicodeDecodeError):
        # Any bytes are letters in one of these code pages: another one gives runs of accents, or odd signs.
        if not _NOT_WESTERN.search(text := data.decode("cp1252")):
            return text
    raise AuditError(f"{path} is neither UTF-8 nor Windows-1252 text of a western language", remedy)


def named_cells(
    path: Path, rows: Iterator[list[str]], required: Collection[str], examples: str
) -> Iterator[tuple[int, dict[str, str]]]:
    """Number and cells of every row that is not blank, by the names of the columns in the first row.

    Args:
        path: Where the rows are from, for errors.
        required: Columns that the table must have.
        examples: Columns that the remedy names where one is missing.

    Raises:
        AuditError: A column is missing, without a name or there twice, or a row has more cells than columns.
    """
    names = list(map(column_name, next(rows, [])))
    for name in required:
        if name not in names:
            raise AuditError(f"{path} has no column '{name}'", f"Name the columns in the first row: {examples}")
    if len(set(names)) < len(names) or not all(names):
        raise AuditError(f"{path} has a column without a name, or two of one name", "Name each column once")
    for number, row in enumerate(rows, 2):
        if len(row) > len(names) and any(row[len(names) :]):
            raise AuditError(f"{path} row {number}: it has more cells than columns", "Correct the row")
        if any(cell.strip() for cell in row):
            yield number, dict(zip(names, map(_plain, row), strict=False))


def column_name(name: str) -> str:
    """Name of a column, in lower case."""
    return name.strip().lower().replace(" ", "_")


def _plain(cell: str) -> str:
    """A cell without the mark that keeps spreadsheets from taking it for a formula."""
    return cell[1:] if cell[:1] == "'" and cell[1:].startswith(FORMULA) else cell
