"""JSON Lines files, read line by line within limits."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any, BinaryIO

from pfl_audit.documents.record_validation import RecordError
from pfl_audit.errors import AuditError
from pfl_audit.inputs import MIB, open_input

MAX_FILE = 4096 * MIB
MAX_LINE = 16 * MIB
MAX_LINES = 1_000_000
_ARCHIVES = {b"PK\x03\x04": "ZIP", b"\x1f\x8b": "gzip", b"7z\xbc\xaf": "7z", b"BZh": "bzip2", b"\xfd7zXZ": "xz"}
_UTF16 = (b"\xff\xfe", b"\xfe\xff")
_BOM = b"\xef\xbb\xbf"
_OPENINGS = (b"{", b"[", b"[{")


def read_json_lines(file: Path, remedy: str) -> Iterator[tuple[str, str | None]]:
    """Iterate over the non-blank lines of a file, as (location, line); line is None above MAX_LINE bytes.

    Args:
        file: File with one JSON object per line, in UTF-8 with or without a byte order mark.
        remedy: Remedy for a file that cannot be used.

    Raises:
        UsageError: The file does not exist.
        AuditError: The file is not regular, not UTF-8, an archive, one JSON value over many lines, or too large.
    """
    refuse_archive(file)
    with open_input(file, limit=MAX_FILE, remedy=remedy) as opened:
        lines = _numbered(file, opened)
        head = list(islice(lines, 2))
        _check_form(file, [line for _, line in head])
        for number, line in chain(head, lines):
            if number > MAX_LINES:
                raise AuditError(f"{file} holds more than {MAX_LINES:,} lines", "Divide it")
            try:
                yield f"{file.name} line {number}", line.decode() if len(line) <= MAX_LINE else None
            except UnicodeDecodeError as error:
                raise AuditError(f"{file} cannot be read as UTF-8 text: line {number} is not", remedy) from error


def parse_json_line(line: str | None) -> dict[str, Any]:
    """Parse the JSON object of a line.

    Raises:
        RecordError: The line is not a JSON object, or contains a lone surrogate, which cannot be encoded.
    """
    if line is None:
        raise RecordError(f"the line is longer than {MAX_LINE // MIB} MiB")
    try:
        row = json.loads(line)
        if "\\ud" in line.lower():
            json.dumps(row, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise RecordError("a text in it is not valid Unicode (a lone surrogate)") from error
    except json.JSONDecodeError as error:
        raise RecordError(f"it is not valid JSON (at letter {error.pos + 1} of the line)") from error
    except ValueError as error:
        raise RecordError("a number in it is too long") from error
    except RecursionError as error:
        raise RecordError("it is nested too deeply") from error
    if not isinstance(row, dict):
        raise RecordError("it is not a JSON object")
    return row


def refuse_archive(file: Path) -> None:
    """Raise AuditError if a file begins with the magic bytes of an archive."""
    with open_input(file, limit=None) as opened:
        try:
            head = opened.read(8)
        except OSError as error:
            raise AuditError(f"{file} cannot be read: {error.strerror or error}", "Check the disk") from error
    for magic, kind in _ARCHIVES.items():
        if head.startswith(magic):
            raise AuditError(f"{file} is a {kind} archive", "Unpack it first, and give what is in it")


def _numbered(file: Path, opened: BinaryIO) -> Iterator[tuple[int, bytes]]:
    """Number and bytes of the non-blank lines, truncated after MAX_LINE bytes."""
    number = 0
    try:
        while line := opened.readline(MAX_LINE + 1):
            number += 1
            rest = line if len(line) > MAX_LINE else b"\n"
            while rest and not rest.endswith(b"\n"):
                rest = opened.readline(MIB)
            if number == 1:
                line = line.removeprefix(_BOM)
            if not line.isspace():
                yield number, line
    except OSError as error:
        raise AuditError(f"{file} cannot be read: {error.strerror or error}", "Check the disk") from error


def _check_form(file: Path, head: Sequence[bytes]) -> None:
    """Raise AuditError if the first two lines are not those of a JSON Lines file."""
    if not head:
        return
    if head[0].startswith(_UTF16):
        raise AuditError(f"{file} cannot be read as UTF-8 text: it is UTF-16", "Save it as UTF-8")
    first, second = head[0].strip(), head[1].strip() if len(head) > 1 else b""
    spread = first in _OPENINGS and not (second.startswith(b"{") and second.endswith(b"}"))
    if spread or (first[:1] == b"[" and first[1:].lstrip()[:1] == b"{" and not second):
        raise AuditError(
            f"{file} is one JSON value over many lines, and one JSON object a line is needed",
            "Write each record on a line of its own, without brackets around them",
        )
