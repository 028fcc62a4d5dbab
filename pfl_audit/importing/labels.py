"""The table of labels: file, provider, member, split, person, group, and one column for each key."""

from __future__ import annotations

import csv
import io
import json
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Final
from unicodedata import normalize

from rapidfuzz.distance import OSA

from pfl_audit.documents.csv_table import FORMULA, MAX_FILE, column_name, csv_rows, named_cells
from pfl_audit.documents.document import Membership
from pfl_audit.documents.readers.gathered import membership_of, split_of
from pfl_audit.documents.readers.json_lines import parse_json_line
from pfl_audit.documents.record_validation import (
    MAX_ANSWER,
    MAX_ANSWERS,
    MAX_NAME,
    RECORD_ERRORS,
    RecordError,
    reason_of,
    text,
)
from pfl_audit.errors import AuditError, UsageError
from pfl_audit.files import write_text
from pfl_audit.inputs import MIB, open_input, read_text, require_input
from pfl_audit.provider_identity import provider_identity
from pfl_audit.sandbox import SandboxError, call_sandboxed

FILE_NAME: Final = "labels.csv"
PROPOSED: Final = "proposed"
SPECIAL: Final = ("file", "provider", "member", "membership", "split", "person", "group", PROPOSED)
"""Columns that are no keys."""
_SEPARATOR = "|"
_REMEDY = "Save it as CSV in UTF-8, as XLSX, or as JSON lines"


@dataclass(frozen=True)
class Row:
    """Labels of a document.

    Attributes:
        file: Path of the document relative to its folder.
        provider: Name of the provider; empty where it is not given.
        membership: Whether the provider is a member.
        split: Split of the pages, such as "blue_train"; empty for RED.
        values: Key to accepted answers.
        proposed: Whether the values were proposed by the importer.
        person: Name of the person whom the document concerns; empty where it is not given.
        group: Name of the group that its unit belongs to; empty where it is not given.
    """

    file: str
    provider: str = ""
    membership: Membership = Membership.UNKNOWN
    split: str = ""
    values: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    proposed: bool = False
    person: str = ""
    group: str = ""


@dataclass(frozen=True)
class Labels:
    """A table of labels.

    Attributes:
        rows: File to its row.
        has_values: Whether a column is a key.
    """

    rows: Mapping[str, Row]
    has_values: bool


def read_labels(path: Path, files: Collection[str]) -> Labels:
    """Read a table and hold it against the documents of the folder.

    Args:
        path: CSV, XLSX or JSON lines.
        files: Names of the documents.

    Raises:
        UsageError: The table does not exist, or openpyxl is missing.
        AuditError: The table cannot be read, a row is damaged, names no document or one that an earlier row names, or
            a provider has two memberships.
    """
    rows: dict[str, Row] = {}
    labels: dict[str, Membership] = {}
    keys: set[str] = set()
    spelled = _by_spelling(files)
    for number, cells in _cells(path):
        where = f"{path} row {number}"
        try:
            row = _row(cells)
        except RECORD_ERRORS as error:
            raise AuditError(f"{where}: {reason_of(error)}", "Correct the row") from error
        if row.file not in files:  # blanks around a cell, unless they are of the name
            row = replace(row, file=row.file.strip().removeprefix("./"))
        if row.file not in files and (name := spelled.get(_spelling(row.file))):
            row = replace(row, file=name)
        if row.file not in files:
            raise AuditError(f"{where}: the folder has no such file", "Give its path inside of the folder")
        if row.file in rows:
            raise AuditError(f"{where}: an earlier row has its file", "Keep one row for each document")
        provider = provider_identity(row.provider or row.file)
        if labels.setdefault(provider, row.membership) is not row.membership:
            raise AuditError(f"{where}: its provider has another membership in an earlier row", "Label each once")
        rows[row.file] = row
        if unknown := cells.keys() - keys - set(SPECIAL):
            _refuse_misspelt(path, unknown, set(SPECIAL) - cells.keys())
            keys |= unknown
    if not rows:
        raise AuditError(f"{path} holds no row", "Give one row for each document")
    return Labels(rows, bool(keys))


def write_labels(path: Path, rows: Sequence[Row], keys: Sequence[str]) -> None:
    """Write a table as CSV that only its owner can read; no cell begins like a formula."""
    out = io.StringIO()
    table = csv.writer(out, lineterminator="\n")
    table.writerow(["file", "provider", "member", "split", "person", "group", *keys, PROPOSED])
    for row in rows:
        values = [_SEPARATOR.join(row.values.get(key, ())) for key in keys]
        member = "" if row.membership is Membership.UNKNOWN else str(row.membership)
        cells = [row.file, row.provider, member, row.split, row.person, row.group, *values]
        cells.append("yes" if row.proposed else "")
        table.writerow([f"'{cell}" if cell.startswith(FORMULA) else cell for cell in cells])
    write_text(path, out.getvalue())


def _refuse_misspelt(path: Path, columns: Collection[str], missing: Collection[str]) -> None:
    """Refuse a column that is almost a special one that is missing: as a key it would be asked for, its labels lost."""
    for column in sorted(columns):
        for name in sorted(missing):
            if OSA.distance(column, name, score_cutoff=1) == 1:
                raise AuditError(
                    f"{path} has a column '{column:.40}', almost '{name}'",
                    f"Name it '{name}', or give a key another name",
                )


def _by_spelling(files: Collection[str]) -> dict[str, str]:
    """Names of the files by their spelling, where no two have one."""
    counts = Counter(map(_spelling, files))
    return {spelling: name for name in files if counts[spelling := _spelling(name)] == 1}


def _spelling(name: str) -> str:
    """A path as a table may write it: accents composed as spreadsheets do, and not as macOS, and slashes of Windows."""
    return normalize("NFC", name).replace("\\", "/").removeprefix("./")


def _row(cells: Mapping[str, str]) -> Row:
    file = text(cells.get("file", ""), "file", MAX_NAME).removeprefix("./")
    provider, person, group = (cells.get(name, "") for name in ("provider", "person", "group"))
    values = {}
    for key, cell in cells.items():
        answers = tuple(dict.fromkeys(part.strip() for part in cell.split(_SEPARATOR) if part.strip()))
        if key in SPECIAL or not answers:
            continue
        if len(answers) > MAX_ANSWERS or max(map(len, answers)) > MAX_ANSWER:
            raise RecordError(f"a value is longer than {MAX_ANSWER:,} letters, or has more than {MAX_ANSWERS} readings")
        values[key] = answers
    return Row(
        file,
        text(provider, "provider", MAX_NAME) if provider else "",
        membership_of(cells),
        split_of(cells, ""),
        values,
        bool(cells.get(PROPOSED)),
        text(person, "person", MAX_NAME) if person else "",
        text(group, "group", MAX_NAME) if group else "",
    )


def _cells(path: Path) -> Iterator[tuple[int, dict[str, str]]]:
    """Rows with their numbers; columns in lower case."""
    require_input(path, "Check the path of the table")
    kind = path.suffix.lower()
    if kind in (".jsonl", ".ndjson"):
        yield from _json_rows(path)
        return
    rows = _spreadsheet(path) if kind in (".xlsx", ".xlsm") else csv_rows(path, _REMEDY)
    for number, cells in named_cells(path, rows, ("file",), "file, provider, member"):
        yield number, {name: cell if name == "file" else cell.strip() for name, cell in cells.items()}


def _spreadsheet(path: Path) -> Iterator[list[str]]:
    if find_spec("openpyxl") is None:
        raise UsageError(f"reading {path} needs openpyxl", "Run: pip install 'pfl-audit[documents]'; or save it as CSV")
    remedy = "Save it as CSV in UTF-8"
    try:
        with open_input(path, limit=MAX_FILE, remedy=remedy) as file:
            rows = call_sandboxed("pfl_audit.importing.table_child:answer", file, memory=1024 * MIB, seconds=20)
        if not (isinstance(rows, list) and all(isinstance(row, list) and {*map(type, row)} <= {str} for row in rows)):
            raise SandboxError("ended")
    except SandboxError as error:
        raise AuditError(f"{path} cannot be read: {error.reason('it is no spreadsheet')}", remedy) from error
    yield from rows


def _json_rows(path: Path) -> Iterator[tuple[int, dict[str, str]]]:
    lines = read_text(path, limit=MAX_FILE, remedy=_REMEDY).split("\n")
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            found = parse_json_line(line)
            cells = {column_name(name): _joined(value) for name, value in found.items()}
            if len(cells) < len(found) or "" in cells:
                raise RecordError("it has a key without a name, or two of one name")
            yield number, cells
        except RECORD_ERRORS as error:
            raise AuditError(f"{path} row {number}: {reason_of(error)}", "Correct the row") from error


def _joined(value: object) -> str:
    if isinstance(value, list):
        return _SEPARATOR.join(map(_joined, value))
    if value is None:
        return ""
    if not isinstance(value, str | int | float):
        raise RecordError("a value is no text, number or list of them")
    return json.dumps(value) if isinstance(value, bool) else str(value)
