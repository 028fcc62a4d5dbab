"""Real invoices, orders and contracts of US television stations, from the FCC's public files.

``docs.jsonl`` holds one document a line: words with pixel boxes, five hand-entered labels, and the
station that issued it, guessed from the page. The station is the provider.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from pfl_audit.documents.corpus import Corpus, Problem
from pfl_audit.documents.document import Document, Membership, Query, as_boxes
from pfl_audit.documents.images import PageImage
from pfl_audit.documents.keys import draw_question
from pfl_audit.documents.problems import DAMAGED, MAX_ANSWER, RecordError, field_of, reason_of, text, words
from pfl_audit.documents.readers.jsonl import list_of, path_inside, text_of
from pfl_audit.documents.readers.lines import lines_of, parse
from pfl_audit.errors import AuditError
from pfl_audit.inputs import is_regular, is_there, require_input

FILE_NAME = "docs.jsonl"
_REMEDY = "Give the folder that holds docs.jsonl and images/"
_MAX_SIDE = 1_000_000
_KEYS = {
    "contract_num": "contract_number",
    "advertiser": "advertiser",
    "gross_amount": "total_amount",
    "flight_from": "flight_from",
    "flight_to": "flight_to",
}


def import_fcc_adbuy(folder: Path, seed: int) -> Corpus:
    """Make BLUE and RED of the documents.

    Half of the stations, drawn by seed, are members. Of a member's documents the first half (by
    drawn order, at least one) is BLUE training data and the rest RED; stations with one document
    that are members train only, and those that are not are RED. A label is asked for where it
    stands on the page; the station's name where it stands among the words.

    Args:
        folder: With ``docs.jsonl`` and ``images/``.
        seed: Of the split and of the question templates.

    Raises:
        UsageError: There is no such folder.
        AuditError: The folder is not of this form.
    """
    require_input(folder, _REMEDY)
    rows, problems = read_records(folder)
    problems += [Problem(row["id"], "no station is known", is_page=True) for row in rows if not row.get("station")]
    named = [row for row in rows if row.get("station")]
    splits = _split(named, seed)
    queries: list[Query] = []
    membership: dict[str, Membership] = {}
    for row in named:
        split = splits[row["id"]]
        try:
            asked = _queries(row, split, folder, seed)
        except DAMAGED as error:
            problems.append(Problem(row["id"], reason_of(error), is_page=True))
            continue
        if not asked:
            problems.append(Problem(row["id"], "none of its labels stands on the first page", is_page=True))
        queries += asked
        negative = split == "red_test_negative"
        membership[row["station"]] = Membership.NON_MEMBER if negative else Membership.MEMBER
    return Corpus(tuple(queries), membership, "fcc-adbuy", tuple(problems))


def _split(rows: list[Mapping[str, Any]], seed: int) -> dict[str, str]:
    rng = np.random.default_rng(seed)
    pages_of: defaultdict[str, list[str]] = defaultdict(list)
    for row in rows:
        pages_of[row["station"]].append(row["id"])
    order = sorted(pages_of, key=lambda station: (-len(pages_of[station]), station))
    # Neighbours in size go to different sides, so that both sides have stations of every size.
    members = {pair[int(rng.integers(len(pair)))] for pair in (order[at : at + 2] for at in range(0, len(order), 2))}
    splits: dict[str, str] = {}
    for station in order:
        pages = pages_of[station]
        shuffled = [pages[index] for index in rng.permutation(len(pages))]
        trained = -(-len(shuffled) // 2) if station in members else 0
        for position, page in enumerate(shuffled):
            if position < trained:
                splits[page] = "blue_train"
            else:
                splits[page] = "red_test_positive" if station in members else "red_test_negative"
    return splits


def _queries(row: Mapping[str, Any], split: str, folder: Path, seed: int) -> list[Query]:
    document = page_of(row, folder, split)
    found, spans = field_of(row, "fields"), spans_of(row)
    if not isinstance(found, Mapping):
        raise RecordError("fields is not a JSON object")
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


def spans_of(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """Label to the places of its value.

    Raises:
        RecordError: The record has none.
    """
    spans = field_of(row, "spans")
    if not isinstance(spans, Mapping):
        raise RecordError("spans is not a JSON object")
    return spans


def page_of(row: Mapping[str, Any], folder: Path, split: str = "") -> Document:
    """The page of a record; its provider is the station, empty where it is not known.

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
        with np.errstate(over="ignore"):  # what exceeds float32 becomes infinite, which is the page's edge
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
        split=split,
    )


def read_records(folder: Path) -> tuple[list[Mapping[str, Any]], list[Problem]]:
    """The records of ``docs.jsonl`` that have a name of their own, and the lines that are none.

    Raises:
        UsageError: There is no such folder.
        AuditError: It does not hold the file, or the file cannot be read.
    """
    require_input(folder, _REMEDY)
    if not is_there(folder / FILE_NAME):
        raise AuditError(f"{folder} holds no {FILE_NAME}", _REMEDY)
    rows: dict[str, Mapping[str, Any]] = {}
    problems: list[Problem] = []
    for where, line in lines_of(folder / FILE_NAME, _REMEDY):
        try:
            row = _record(line)
            if rows.setdefault(row["id"], row) is not row:
                raise RecordError("a document with its id stands further up")
        except RecordError as error:
            problems.append(Problem(where, str(error)))
    return list(rows.values()), problems


def _record(line: str | None) -> Mapping[str, Any]:
    row = parse(line)
    text_of(row, "id")
    if (station := row.get("station")) is not None and not isinstance(station, str):
        raise RecordError("station is not a text")
    if station:
        text_of(row, "station")
    return row
