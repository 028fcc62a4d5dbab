"""Real invoices, orders and contracts of US television stations, from the FCC's public files.

``docs.jsonl`` holds one document a line: words with pixel boxes, five hand-entered labels, and the
station that issued it, inferred from the page. The station is the provider.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from pfl_audit.documents.corpus import Corpus, Problem
from pfl_audit.documents.document import Document, Membership, Query, as_boxes
from pfl_audit.documents.images import PageImage
from pfl_audit.documents.keys import draw_question
from pfl_audit.documents.readers import ImportedCorpora
from pfl_audit.documents.readers.json_lines import parse_json_line, read_json_lines
from pfl_audit.documents.readers.jsonl import list_of, mapping_of, path_inside, text_of
from pfl_audit.documents.record_validation import (
    MAX_ANSWER,
    RECORD_ERRORS,
    RecordError,
    field_of,
    reason_of,
    text,
    words,
)
from pfl_audit.errors import AuditError
from pfl_audit.inputs import is_regular, is_there, require_input

FILE_NAME = "docs.jsonl"
TRAIN = "blue_train"
_REMEDY = "Give the folder that holds docs.jsonl and images/"
_MAX_SIDE = 1_000_000
_KEYS = {
    "contract_num": "contract_number",
    "advertiser": "advertiser",
    "gross_amount": "total_amount",
    "flight_from": "flight_from",
    "flight_to": "flight_to",
}


class FccAdbuyImporter:
    """Importer of ``docs.jsonl``."""

    def recognises(self, path: Path) -> bool:
        """Whether the folder holds the file and the images."""
        return is_there(path / FILE_NAME) and is_there(path / "images")

    def __call__(self, folder: Path, seed: int) -> ImportedCorpora:
        """Make the corpora."""
        return import_fcc_adbuy(folder, seed)


IMPORTER = FccAdbuyImporter()


def import_fcc_adbuy(folder: Path, seed: int) -> ImportedCorpora:
    """Make the corpus of an audit and the training corpus of an out-model.

    Stations with two or more documents are members or non-members: of each two of similar size one is a member, drawn
    with the seed. Half of the documents of every such station, rounded up, is held back, drawn with the seed; the rest
    is RED. Held-back documents of members are BLUE training data, those of non-members are left out, so that both
    classes are asked about in the same way. Stations with one document train the out-model. A document is used if it
    has a question: a label is asked for if its value is on the page, the station's name if it is among the words.

    Args:
        folder: Folder with ``docs.jsonl`` and ``images/``.
        seed: Seed of the split and of the question templates.

    Raises:
        UsageError: The folder does not exist.
        AuditError: The folder does not have this format.
    """
    require_input(folder, _REMEDY)
    rows, problems = read_records(folder)
    problems += [Problem(row["id"], "no station is known", is_page=True) for row in rows if not row.get("station")]
    pages_of: defaultdict[str, list[list[Query]]] = defaultdict(list)
    for row in rows:
        if not row.get("station"):
            continue
        try:
            asked = _queries(row, folder, seed)
        except RECORD_ERRORS as error:
            problems.append(Problem(row["id"], reason_of(error), is_page=True))
            continue
        if asked:
            pages_of[row["station"]].append(asked)
        else:
            problems.append(Problem(row["id"], "none of its labels is on the first page", is_page=True))
    rng = np.random.default_rng(seed)
    members = _draw_members(pages_of, rng)
    audit, out_model = (_corpus(parts, members) for parts in _split(pages_of, members, rng))
    audit = replace(audit, problems=tuple(problems))
    kept = len(audit.documents) + len(out_model.documents)
    return ImportedCorpora(audit, out_model if out_model.queries else None, sum(map(len, pages_of.values())) - kept)


def _draw_members(pages_of: Mapping[str, list[list[Query]]], rng: np.random.Generator) -> dict[str, bool]:
    """Station to whether it is a member, for stations with two or more documents.

    Neighbours in size get different classes, so that both classes have stations of every size.
    """
    stations = [station for station in pages_of if len(pages_of[station]) > 1]
    order = sorted(stations, key=lambda station: (-len(pages_of[station]), station))
    members: dict[str, bool] = {}
    for at in range(0, len(order), 2):
        first = bool(rng.integers(2))
        members |= dict(zip(order[at : at + 2], (first, not first), strict=False))
    return members


_Parts = list[tuple[str, list[Query]]]
"""Pages with their splits."""


def _split(
    pages_of: Mapping[str, list[list[Query]]], members: Mapping[str, bool], rng: np.random.Generator
) -> tuple[_Parts, _Parts]:
    """Pages of the audit, and pages of the out-model."""
    audit: _Parts = []
    out_model: _Parts = []
    for station in sorted(pages_of):
        pages = pages_of[station]
        if station not in members:
            out_model += [(TRAIN, page) for page in pages]
            continue
        shuffled = [pages[index] for index in rng.permutation(len(pages))]
        held_back = -(-len(pages) // 2)
        if members[station]:
            audit += [(TRAIN, page) for page in shuffled[:held_back]]
        red = "red_test_positive" if members[station] else "red_test_negative"
        audit += [(red, page) for page in shuffled[held_back:]]
    return audit, out_model


def _corpus(parts: _Parts, members: Mapping[str, bool]) -> Corpus:
    queries: list[Query] = []
    for split, asked in parts:
        document = replace(asked[0].document, split=split)
        queries += [replace(query, document=document) for query in asked]
    labels = {True: Membership.MEMBER, False: Membership.NON_MEMBER}
    return Corpus(tuple(queries), {station: labels[member] for station, member in members.items()}, "fcc-adbuy")


def _queries(row: Mapping[str, Any], folder: Path, seed: int) -> list[Query]:
    document = page_of(row, folder)
    found, spans = mapping_of(row, "fields"), mapping_of(row, "spans")
    asked = {
        _KEYS[name]: text(str(value), f"the value of {_KEYS[name]}", MAX_ANSWER)
        for name, value in found.items()
        if name in _KEYS and spans.get(name) and str(value).strip()
    }
    if any(row["station"].casefold() in word.casefold() for word in document.words):
        asked["provider_name"] = row["station"]
    rng = np.random.default_rng(int.from_bytes(hashlib.sha256(f"{seed}/{row['id']}".encode()).digest()[:8], "little"))
    return [
        Query(f"{document.id}-{key}", document, draw_question(key, rng), (value.lower(),), key)
        for key, value in sorted(asked.items())
    ]


def page_of(row: Mapping[str, Any], folder: Path) -> Document:
    """Page of a record; its provider is the station, or empty if unknown.

    Raises:
        RecordError: The record is damaged.
    """
    entries = list_of(row, "words")
    if not all(isinstance(entry, list) and len(entry) >= 5 for entry in entries):
        raise RecordError("a word is not a list of a text and four numbers")
    found = words([entry[0] for entry in entries])
    sizes = [field_of(row, name) for name in ("width", "height")]
    if not all(isinstance(size, int | float) and 0 < size < _MAX_SIDE for size in sizes):
        raise RecordError("the page has no size")
    try:
        with np.errstate(over="ignore"):  # values above float32 become infinite, and are clipped
            boxes = np.array([entry[1:5] for entry in entries], dtype=np.float32).reshape(-1, 4)
    except (TypeError, ValueError, OverflowError) as error:  # whose text may quote a word of the page
        raise RecordError("the box of a word is not four numbers") from error
    image = path_inside(folder, field_of(row, "image"))
    return Document(
        id=f"{row['id']}_1",
        provider=row.get("station") or "",
        words=found,
        boxes=as_boxes(np.clip(boxes / np.array(sizes * 2, dtype=np.float32), 0, 1), len(found)),
        image=PageImage(image) if is_regular(image) else None,
    )


def read_records(folder: Path) -> tuple[list[Mapping[str, Any]], list[Problem]]:
    """Records of ``docs.jsonl`` with unique ids, and problems of the other lines.

    Raises:
        UsageError: The folder does not exist.
        AuditError: The file is missing or cannot be read.
    """
    require_input(folder, _REMEDY)
    if not is_there(folder / FILE_NAME):
        raise AuditError(f"{folder} holds no {FILE_NAME}", _REMEDY)
    rows: dict[str, Mapping[str, Any]] = {}
    problems: list[Problem] = []
    for where, line in read_json_lines(folder / FILE_NAME, _REMEDY):
        try:
            row = _record(line)
            if rows.setdefault(row["id"], row) is not row:
                raise RecordError("an earlier document has its id")
        except RecordError as error:
            problems.append(Problem(where, str(error)))
    return list(rows.values()), problems


def _record(line: str | None) -> Mapping[str, Any]:
    row = parse_json_line(line)
    text_of(row, "id")
    if (station := row.get("station")) is not None and not isinstance(station, str):
        raise RecordError("station is not a text")
    if station:
        text_of(row, "station")
    return row
