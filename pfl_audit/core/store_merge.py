"""Merges response stores by content, such as those of the shares of one audit."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import isfinite
from pathlib import Path

from pfl_audit.core.shared_results import PUBLISHED, published_totals
from pfl_audit.core.store import INSERT, MARK, SELECT, ResponseStore, stored_response
from pfl_audit.errors import AuditError, UsageError
from pfl_audit.models.protocol import Response

_ROWS = 500
_KEY = re.compile("[0-9a-f]{64}")


@dataclass
class Merged:
    """What was merged.

    Attributes:
        answers: Answers that were added.
        records: Other results that were added.
        known: What was there already, of both.
        different: Answers that differ from store to store, such as by another processor's rounding; the first is kept.
        apart: Largest difference of two losses of one question.
    """

    answers: int = 0
    records: int = 0
    known: int = 0
    different: int = 0
    apart: float = 0.0


def merge_stores(out: Path, stores: Sequence[Path]) -> Merged:
    """Put everything that stores hold into one.

    A store is put in as one transaction: killed at any time, the same call goes on.

    Args:
        out: The store to add to; made where it is missing.
        stores: Of one audit, as of ``ResponseStore.mark``.

    Raises:
        UsageError: A store does not exist, or is the one to add to.
        AuditError: A store is none, is damaged, or holds answers of another model or about other documents.
    """
    for path in stores:
        if not path.is_file():
            raise UsageError(f"{path} does not exist", "Name the stores of all shards that have ended")
        if out.exists() and path.samefile(out):
            raise UsageError(f"{path} is the store to add to", "Name it once")
    done = Merged()
    with ResponseStore(out) as target:
        common = target.marks() if len(target) else target.marks() or None
        for path in stores:
            with ResponseStore(path) as source:
                _require_whole(source, path)
                marks = _marks(source)
            if not marks or (common is not None and not common & marks):
                raise AuditError(
                    f"{path} holds answers of another model or about other documents than the stores before it",
                    "Merge the stores of one audit, made by one version of pfl-audit",
                )
            common = marks if common is None else common & marks
        for path in stores:
            with ResponseStore(path) as source, target.transaction() as database:
                _add_answers(source, target, database, done)
                _add_records(source, target, database, done)
                names = [(f"{MARK}{mark}",) for mark in sorted(_marks(source))]
                database.executemany("INSERT OR IGNORE INTO meta VALUES (?, '')", names)
    return done


def _require_whole(source: ResponseStore, path: Path) -> None:
    with source.reading() as database:
        (found,) = database.execute("PRAGMA quick_check(1)").fetchone()
    if found != "ok":
        raise AuditError(f"the response store {path} is damaged", "Delete it, and repeat its shard")


def _marks(source: ResponseStore) -> frozenset[str]:
    with source.reading():
        return frozenset(map(_checked, source.marks()))


def _add_answers(source: ResponseStore, target: ResponseStore, database: sqlite3.Connection, done: Merged) -> None:
    for rows in _chunks(source, SELECT):
        with source.reading():
            given = {_checked(row[0]): stored_response(*row[1:]) for row in rows}
        known = target.get(given)
        for key, there in known.items():
            if there != given[key]:
                done.different += 1
                done.apart = max(done.apart, _apart(there, given[key]))
        new = [row for row in rows if row[0] not in known]
        database.executemany(INSERT, new)
        done.answers += len(new)
        done.known += len(known)


def _add_records(source: ResponseStore, target: ResponseStore, database: sqlite3.Connection, done: Merged) -> None:
    totals = published_totals(target).joined(published_totals(source))
    for rows in _chunks(source, "SELECT key, value FROM records"):
        with source.reading():
            if not all(isinstance(json.loads(str(value)), dict) for _, value in rows):
                raise TypeError("a row holds no record")
            keys = [_checked(key) for key, _ in rows]
        before = database.total_changes
        database.executemany("INSERT OR IGNORE INTO records VALUES (?, ?)", rows)
        added = database.total_changes - before
        done.records += added
        done.known += len(keys) - added
    if totals.numbers:
        database.execute("INSERT OR REPLACE INTO records VALUES (?, ?)", (PUBLISHED, totals.model_dump_json()))


def _chunks(source: ResponseStore, select: str) -> Iterator[list[tuple[object, ...]]]:
    with source.reading() as database:
        rows = database.execute(select)
    while True:
        with source.reading():
            some = rows.fetchmany(_ROWS)
        if not some:
            return
        yield some


def _checked(key: object) -> str:
    """A key.

    Raises:
        TypeError: It is none.
    """
    if not isinstance(key, str) or not _KEY.fullmatch(key):
        raise TypeError("a row has no key")
    return key


def _apart(one: Response, other: Response) -> float:
    apart = abs((one.loss or 0.0) - (other.loss or 0.0))
    return apart if isfinite(apart) else 0.0
