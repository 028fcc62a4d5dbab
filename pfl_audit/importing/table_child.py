"""Rows of a spreadsheet as plain data; runs in the sandbox (``labels.py``), where openpyxl may fail."""

from __future__ import annotations

import io
import zipfile
from datetime import date, datetime, time
from pathlib import Path

from pfl_audit.documents.csv_table import MAX_COLUMNS, MAX_FILE, MAX_ROWS
from pfl_audit.errors import AuditError
from pfl_audit.inputs import MIB, read_bytes
from pfl_audit.sandbox import RefusedError

MAX_UNPACKED = 256 * MIB


def answer(path: str) -> list[list[str]]:
    """Rows of the first sheet; dates are written as YYYY-MM-DD, empty cells as empty texts.

    Raises:
        RefusedError: A limit is exceeded, or the file is no spreadsheet.
    """
    import openpyxl

    try:
        data = io.BytesIO(read_bytes(Path(path), limit=MAX_FILE))
    except AuditError as error:
        raise RefusedError(error.problem.removeprefix(f"{path} ")) from error
    try:
        with zipfile.ZipFile(data) as parts:
            if sum(part.file_size for part in parts.infolist()) > MAX_UNPACKED:
                raise RefusedError(f"it unpacks to more than {MAX_UNPACKED // MIB} MiB")
    except zipfile.BadZipFile as error:
        raise RefusedError("it is no spreadsheet") from error
    sheet = openpyxl.load_workbook(data, read_only=True, data_only=True).worksheets[0]
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
