"""What a model has answered before: an embedded database, safe against being killed."""

from __future__ import annotations

import json
import os
import secrets
import sqlite3
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from pfl_audit.errors import AuditError
from pfl_audit.models.protocol import Response

_SCHEMA = """
CREATE TABLE IF NOT EXISTS responses
    (key TEXT PRIMARY KEY, answer TEXT NOT NULL, confidence REAL, loss REAL, tokens INTEGER);
CREATE TABLE IF NOT EXISTS records (key TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, value TEXT NOT NULL);
"""
_TABLES = {"responses", "records", "meta"}
_VERSION = 1
_LOOKUP = 500
_SELECT = "SELECT key, answer, confidence, loss, tokens FROM responses"


class Records:
    """What was found about something that takes many passes, as JSON by the content of what was asked.

    Args:
        store: In whose file it stands.

    Attributes:
        put_count: Records that were put by this process.
        got_count: Records that were found.
    """

    def __init__(self, store: ResponseStore) -> None:
        self._store = store
        self.put_count = 0
        self.got_count = 0

    def get(self, key: str) -> dict[str, Any] | None:
        """What was put under ``key``, or None.

        Raises:
            AuditError: The file is damaged.
        """
        found = self._store.record(key)
        self.got_count += found is not None
        return found

    def put(self, key: str, value: dict[str, Any]) -> None:
        """Keep a JSON object, in a transaction of its own.

        Raises:
            AuditError: The disk is full.
        """
        self._store.put_record(key, value)
        self.put_count += 1


class ResponseStore:
    """Responses by the content of what was asked of what.

    Every batch is one transaction, so that a killed process loses at most the batch it was at.
    The file is readable by its owner only: answers may be personal data.

    Args:
        path: The database file; made where it is missing.

    Raises:
        AuditError: Not such a database, another program's, written by another version, or the disk is
            full.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
            self._db = sqlite3.connect(path, timeout=60)
            self._refuse_others()
            self._db.execute("PRAGMA journal_mode=WAL")
            self._db.executescript(_SCHEMA)
            self._db.execute(f"{_SELECT} LIMIT 0")
            self._db.execute(f"PRAGMA user_version={_VERSION}")
            self._db.execute("INSERT OR IGNORE INTO meta VALUES ('salt', ?)", (secrets.token_hex(16),))
            self._db.commit()
        except (sqlite3.Error, OSError) as error:
            raise self._failed(error) from error

    @property
    def salt(self) -> str:
        """A random number that belongs to this store: names are turned into pseudonyms with it.

        Raises:
            AuditError: The file is damaged.
        """
        try:
            return str(self._db.execute("SELECT value FROM meta WHERE name = 'salt'").fetchone()[0])
        except (sqlite3.Error, TypeError) as error:
            raise self._failed(error) from error

    def get(self, keys: Iterable[str]) -> dict[str, Response]:
        """Known responses among ``keys``.

        Raises:
            AuditError: The file is damaged.
        """
        wanted = list(dict.fromkeys(keys))
        found: dict[str, Response] = {}
        for at in range(0, len(wanted), _LOOKUP):
            some = wanted[at : at + _LOOKUP]
            marks = ",".join("?" * len(some))
            try:
                rows = self._db.execute(f"{_SELECT} WHERE key IN ({marks})", some)
                found |= {key: _response(*row) for key, *row in rows}
            except (sqlite3.Error, ValueError, TypeError, RecursionError) as error:
                raise self._failed(error) from error
        return found

    def put(self, responses: Mapping[str, Response]) -> None:
        """Keep a batch of responses, all or none.

        Raises:
            AuditError: The disk is full.
        """
        rows = [
            (key, json.dumps(response.answer), response.confidence, response.loss, response.tokens)
            for key, response in responses.items()
        ]
        try:
            with self._db:
                self._db.executemany("INSERT OR REPLACE INTO responses VALUES (?, ?, ?, ?, ?)", rows)
        except sqlite3.Error as error:
            raise self._failed(error) from error

    def record(self, key: str) -> dict[str, Any] | None:
        """The JSON object that was put under ``key``, or None.

        Raises:
            AuditError: The file is damaged.
        """
        try:
            row = self._db.execute("SELECT value FROM records WHERE key = ?", (key,)).fetchone()
            found = json.loads(row[0]) if row else None
            if not isinstance(found, dict | None):
                raise TypeError("a row holds no record")
        except (sqlite3.Error, ValueError, TypeError, RecursionError) as error:
            raise self._failed(error) from error
        return found

    def put_record(self, key: str, value: dict[str, Any]) -> None:
        """Keep a JSON object.

        Raises:
            AuditError: The disk is full.
        """
        try:
            with self._db:
                self._db.execute("INSERT OR REPLACE INTO records VALUES (?, ?)", (key, json.dumps(value)))
        except sqlite3.Error as error:
            raise self._failed(error) from error

    def __len__(self) -> int:
        try:
            return int(self._db.execute("SELECT count(*) FROM responses").fetchone()[0])
        except sqlite3.Error as error:
            raise self._failed(error) from error

    def close(self) -> None:
        """Close the database."""
        self._db.close()

    def __enter__(self) -> ResponseStore:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _refuse_others(self) -> None:
        """Leave alone what another version or another program has made."""
        version = int(self._db.execute("PRAGMA user_version").fetchone()[0])
        if version not in (0, _VERSION):
            raise AuditError(
                f"{self._path} was written by another version of pfl-audit", "Delete it, or name another --store"
            )
        tables = {name for (name,) in self._db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        if tables - _TABLES:
            raise AuditError(f"{self._path} is another program's database", "Name another --store")

    def _failed(self, error: Exception) -> AuditError:
        """One line, with what helps: only a store that is no store any more is to be deleted."""
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            remedy = "Wait until the other audit has ended, or name another --store"
        elif isinstance(error, OSError) or code in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN):
            remedy = "Free some space, or name another --store"
        elif code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM):
            remedy = "Make it writable, or name another --store"
        else:
            remedy = "Delete it, or name another --store"
        return AuditError(f"the response store {self._path} cannot be used: {error}", remedy)


def _response(said: str, confidence: float | None, loss: float | None, tokens: int | None) -> Response:
    """A row as a response.

    Raises:
        ValueError: Not what put has written.
        TypeError: Likewise.
    """
    answer = json.loads(said)
    numbers = all(value is None or isinstance(value, float) for value in (confidence, loss))
    if not isinstance(answer, str) or not numbers or not isinstance(tokens, int | None):
        raise TypeError("a row holds no response")
    return Response(answer, confidence, loss, tokens)
