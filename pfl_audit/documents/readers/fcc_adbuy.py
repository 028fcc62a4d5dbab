"""Real invoices, orders and contracts of US television stations, from the FCC's public files.

``docs.jsonl`` holds one document a line: words with pixel boxes, five hand-entered labels, and the
station that issued it, guessed from the page. The station is the provider.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from pfl_audit.documents.corpus import Corpus, Problem
from pfl_audit.documents.document import Document, Membership, Query, as_boxes
from pfl_audit.documents.images import PageImage
from pfl_audit.documents.keys import draw_question
from pfl_audit.documents.readers.jsonl import lines_of, parse, path_inside

FILE_NAME = "docs.jsonl"
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
        AuditError: The folder is not of this form.
    """
    rows, problems = read_records(folder)
    problems += [Problem(row["id"], "no station could be told") for row in rows if not row.get("station")]
    named = [row for row in rows if row.get("station")]
    splits = _split(named, seed)
    queries: list[Query] = []
    membership: dict[str, Membership] = {}
    for row in named:
        split = splits[row["id"]]
        try:
            asked = _queries(row, split, folder, seed)
        except (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError) as error:
            problems.append(Problem(row["id"], f"damaged: {error}"))
            continue
        if not asked:
            problems.append(Problem(row["id"], "none of its labels stands on the first page"))
        queries += asked
        negative = split == "red_test_negative"
        membership[row["station"]] = Membership.NON_MEMBER if negative else Membership.MEMBER
    return Corpus(tuple(queries), membership, "fcc-adbuy", tuple(problems))


def _split(rows: list[Mapping[str, Any]], seed: int) -> dict[str, str]:
    rng = np.random.default_rng(seed)
    counts = Counter(row["station"] for row in rows)
    order = sorted(counts, key=lambda station: (-counts[station], station))
    # Neighbours in size go to different sides, so that both sides have stations of every size.
    members = {pair[int(rng.integers(len(pair)))] for pair in (order[at : at + 2] for at in range(0, len(order), 2))}
    splits: dict[str, str] = {}
    for station in order:
        pages = [row["id"] for row in rows if row["station"] == station]
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
    asked = {
        _KEYS[name]: str(value) for name, value in row["fields"].items() if name in _KEYS and row["spans"].get(name)
    }
    if any(str(row["station"]).casefold() in word.casefold() for word in document.words):
        asked["provider_name"] = str(row["station"])
    rng = np.random.default_rng(int.from_bytes(hashlib.sha256(f"{seed}/{row['id']}".encode()).digest()[:8], "little"))
    return [
        Query(f"{document.id}-{key}", document, draw_question(key, rng), (value.lower(),), key)
        for key, value in sorted(asked.items())
        if value.strip()
    ]


def page_of(row: Mapping[str, Any], folder: Path, split: str = "") -> Document:
    """The page of a record; its provider is the station, or nobody where none could be told.

    Raises:
        KeyError, TypeError, ValueError, IndexError, OverflowError: The record is damaged.
    """
    words = tuple(str(word[0]) for word in row["words"])
    size = np.array([row["width"], row["height"]] * 2, dtype=np.float32)
    if not (size > 0).all():
        raise ValueError("the page has no size")
    try:
        boxes = np.array([word[1:5] for word in row["words"]], dtype=np.float32).reshape(-1, 4) / size
    except ValueError as error:  # whose text would hold a word of the page
        raise ValueError("the box of a word is not four numbers") from error
    image = path_inside(folder, row["image"])
    return Document(
        id=f"{row['id']}_1",
        provider=row.get("station") or "",
        words=words,
        boxes=as_boxes(np.clip(boxes, 0, 1), len(words)),
        image=PageImage(image) if image.is_file() else None,
        split=split,
    )


def read_records(folder: Path) -> tuple[list[Mapping[str, Any]], list[Problem]]:
    """The records of ``docs.jsonl`` that have a name of their own, and the lines that are none.

    Raises:
        AuditError: The file cannot be read.
    """
    rows: dict[str, Mapping[str, Any]] = {}
    problems: list[Problem] = []
    for where, line in lines_of(folder / FILE_NAME, "Give the folder that holds docs.jsonl and images/"):
        try:
            row = _record(line)
            if rows.setdefault(row["id"], row) is not row:
                raise ValueError("a document with its id stands further up")
        except (TypeError, ValueError, RecursionError) as error:
            problems.append(Problem(where, str(error)))
    return list(rows.values()), problems


def _record(line: str) -> Mapping[str, Any]:
    row = parse(line)
    if not isinstance(row, Mapping):
        raise TypeError("it is not a JSON object")
    if not isinstance(row.get("id"), str) or not row["id"].strip():
        raise ValueError("id is not a text")
    if not isinstance(row.get("station"), str | None):
        raise TypeError("station is not a text")
    return row
