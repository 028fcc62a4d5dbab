"""Rows of a spreadsheet as plain data; runs in the sandbox (``labels.py``), where openpyxl may fail."""

from __future__ import annotations

from datetime import date, datetime, time
from typing import BinaryIO

import openpyxl

from pfl_audit.documents.csv_table import MAX_COLUMNS, MAX_ROWS
from pfl_audit.sandbox import RefusedError


def answer(file: BinaryIO) -> list[list[str]]:
    """Rows of the first sheet; dates are written as YYYY-MM-DD, empty cells as empty texts.

    Raises:
        RefusedError: A limit is exceeded.
    """
    sheet = openpyxl.load_workbook(file, read_only=True, data_only=True).worksheets[0]
    sheet.reset_dimensions()
    rows: list[list[str]] = []
    for row in sheet.iter_rows(values_only=True):
        if len(row) > MAX_COLUMNS:
            raise RefusedError(f"it has more than {MAX_COLUMNS} columns")
        if len(rows) >= MAX_ROWS:
            raise RefusedError(f"it has more than {MAX_ROWS:,} rows")
        rows.append([_text(value) for value in row])
    return rows


def _text(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, datetime):
        return value.date().isoformat() if value.time() == time() else value.isoformat(" ")
    if isinstance(value, date):
        return value.isoformat()
    return str(int(value) if isinstance(value, float) and value.is_integer() else value)
