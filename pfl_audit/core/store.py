"""What a model has answered before: an embedded database, safe against being killed."""

from __future__ import annotations

import json
import os
import sqlite3
import stat
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from weakref import WeakSet

from pydantic import JsonValue

from pfl_audit.errors import AuditError, StorageError, UsageError
from pfl_audit.files import make_folder, remedy_for, remove_empty
from pfl_audit.inputs import kind_of
from pfl_audit.models.protocol import Response

_SCHEMA = """
CREATE TABLE IF NOT EXISTS responses
    (key TEXT PRIMARY KEY, answer TEXT NOT NULL, confidence REAL, loss REAL, tokens INTEGER, token_losses BLOB);
CREATE TABLE IF NOT EXISTS records (key TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, value TEXT NOT NULL);
"""
_TABLES = {"responses", "records", "meta"}
_BESIDE = ("-journal", "-wal", "-shm")
"""Files that SQLite opens with a database."""
_LONGEST = 64 << 20
"""Bytes of the longest value that is read."""
_MAGIC = b"SQLite format 3\0"
_VERSION = 2
_ADDED = "token_losses BLOB"
"""Column that the first version did not have."""
MARK = "asked "
"""Of the name of an entry that says what the answers are for."""
_LOOKUP = 500
_SINGLE = "f"
"""Numbers of ``array`` of the losses of tokens: four bytes each."""
SELECT = "SELECT key, answer, confidence, loss, tokens, token_losses FROM responses"
"""Rows of answers: the key, and what ``stored_response`` takes."""
INSERT = "INSERT OR REPLACE INTO responses VALUES (?, ?, ?, ?, ?, ?)"


class Records:
    """What was found about something that takes many passes, as JSON by the content of what was asked.

    Args:
        store: Whose file holds it.

    Attributes:
        put_count: Records that were put by this process.
        got_count: Records that were found.
    """

    def __init__(self, store: ResponseStore) -> None:
        self._store = store
        self.put_count = 0
        self.got_count = 0

    def get(self, key: str) -> dict[str, JsonValue] | None:
        """What was put under ``key``, or None.

        Raises:
            StorageError: The file is damaged.
        """
        with self._store.reading() as db:
            row = db.execute("SELECT value FROM records WHERE key = ?", (key,)).fetchone()
            found = json.loads(row[0]) if row else None
            if not isinstance(found, dict | None):
                raise TypeError("a row holds no record")
        self.got_count += found is not None
        return found

    def put(self, key: str, value: Mapping[str, object]) -> None:
        """Keep a JSON object, in a transaction of its own.

        Raises:
            StorageError: The disk is full.
        """
        self._store.write("INSERT OR REPLACE INTO records VALUES (?, ?)", [(key, json.dumps(value))])
        self.put_count += 1


class ResponseStore:
    """Responses by the content of what was asked of what.

    Every batch is one transaction, so that a killed process loses at most the batch it was at.
    The file is readable by its owner only: answers may be personal data.

    Args:
        path: The database file; made where it is missing.

    Attributes:
        path: The file.
        changed: Whether this process has put something, or would have but for a full disk.

    Raises:
        AuditError: Not such a database, another program's, written by another version, or a link.
        StorageError: The disk is full, or the file is damaged.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.changed = False
        _require_plain(path)
        self._made: list[Path] = []
        try:
            self._new = not path.exists()
            self._made = make_folder(path.parent, private=True)
            if not _is_open_here(path):
                _require_database(path)
            self._db = sqlite3.connect(path, timeout=60)
        except (sqlite3.Error, OSError) as error:
            remove_empty(self._made)
            raise self._failed(error) from error
        try:
            self._db.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LONGEST)
            self._db.execute("PRAGMA trusted_schema=OFF")
            self._refuse_others()
            if self._db.execute("PRAGMA journal_mode=WAL").fetchone()[0] == "wal":
                # A killed process loses nothing. After a power failure the last answers may be missing, and are asked
                # again; to wait for the disk after each takes a hundred times as long.
                self._db.execute("PRAGMA synchronous=NORMAL")
            self._db.executescript(_SCHEMA)
            self._db.execute(f"{SELECT} LIMIT 0")
            self._db.execute("SELECT name FROM meta LIMIT 1").fetchone()  # finds pages that are damaged
            self._db.execute(f"PRAGMA user_version={_VERSION}")
            self._db.commit()
        except sqlite3.Error as error:
            self.discard()
            raise self._failed(error) from error
        except BaseException:
            self.discard()
            raise
        self._file = _identity(path)
        _OPEN.add(self)

    def get(self, keys: Iterable[str]) -> dict[str, Response]:
        """Known responses among ``keys``.

        Raises:
            StorageError: The file is damaged.
        """
        wanted = list(dict.fromkeys(keys))
        found: dict[str, Response] = {}
        for at in range(0, len(wanted), _LOOKUP):
            some = wanted[at : at + _LOOKUP]
            marks = ",".join("?" * len(some))
            with self.reading():
                rows = self._db.execute(f"{SELECT} WHERE key IN ({marks})", some)
                found |= {key: stored_response(*row) for key, *row in rows}
        return found

    def put(self, responses: Mapping[str, Response]) -> None:
        """Keep a batch of responses, all or none.

        Raises:
            StorageError: The disk is full.
        """
        rows = []
        for key, one in responses.items():
            losses = array(_SINGLE, one.token_losses).tobytes() if one.token_losses is not None else None
            rows.append((key, json.dumps(one.answer), one.confidence, one.loss, one.tokens, losses))
        self.write(INSERT, rows)

    def mark(self, asked: Iterable[str]) -> None:
        """Note what the answers are for, by which stores of one audit know each other.

        Args:
            asked: SHA-256 of what is asked of what, as of ``asked_of``.

        Raises:
            StorageError: The disk is full.
        """
        changed = self.changed
        self.write("INSERT OR IGNORE INTO meta VALUES (?, '')", [(f"{MARK}{one}",) for one in asked])
        self.changed = changed  # a store without answers is still one that nothing came of

    def marks(self) -> frozenset[str]:
        """What the answers are for.

        Raises:
            StorageError: The file is damaged.
        """
        with self.reading() as db:
            rows = db.execute("SELECT name FROM meta WHERE name LIKE ?", (f"{MARK}%",)).fetchall()
            return frozenset(str(name).removeprefix(MARK) for (name,) in rows)

    def __len__(self) -> int:
        with self.reading():
            return int(self._db.execute("SELECT count(*) FROM responses").fetchone()[0])

    def close(self) -> None:
        """Close the database."""
        _OPEN.discard(self)
        self._db.close()

    def discard(self) -> None:
        """Close the database, and remove one that this process has made and that holds nothing."""
        if self._new and not self.changed and self._alone():
            self.close()
            self.path.unlink(missing_ok=True)
            remove_empty(self._made)
        self.close()

    def __enter__(self) -> ResponseStore:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is None:
            self.close()
        else:
            self.discard()

    def write(self, statement: str, rows: Sequence[Sequence[object]]) -> None:
        """Put rows in one transaction.

        Raises:
            StorageError: The disk is full.
        """
        with self.transaction() as db:
            db.executemany(statement, rows)

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """The database, for rows that are put all or none.

        Raises:
            StorageError: The disk is full.
        """
        self.changed = True
        try:
            with self._db:
                yield self._db
        except sqlite3.Error as error:
            raise self._failed(error) from error

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """The database; StorageError for what SQLite reports, and for a row that is not what was put there."""
        try:
            yield self._db
        except (sqlite3.Error, ValueError, TypeError, RecursionError) as error:
            raise self._failed(error) from error

    def _refuse_others(self) -> None:
        """Leave alone what another version or another program has made."""
        version = int(self._db.execute("PRAGMA user_version").fetchone()[0])
        if version not in (0, 1, _VERSION):
            raise AuditError(
                f"{self.path} was written by another version of pfl-audit", "Delete it, or name another --store"
            )
        found = _schema(self._db)
        if any(kind != "table" or name not in _TABLES for kind, name, _ in found):
            raise AuditError(f"{self.path} is another program's database", "Name another --store")
        if found - _own_schema():
            if found - {(kind, name, sql.replace(f", {_ADDED}", "")) for kind, name, sql in _own_schema()}:
                raise self._failed("it has tables of other columns")
            self._db.execute(f"ALTER TABLE responses ADD COLUMN {_ADDED}")

    def _alone(self) -> bool:
        """Whether nothing is in the store and no other connection is open, which leaving the WAL mode needs."""
        try:
            tables = {"responses", "records"} & {name for _, name, _ in _schema(self._db)}
            held = any(self._db.execute(f"SELECT 1 FROM {table} LIMIT 1").fetchone() for table in tables)  # noqa: S608
            self._db.execute("PRAGMA busy_timeout=0")
            return not held and self._db.execute("PRAGMA journal_mode=DELETE").fetchone()[0] == "delete"
        except sqlite3.Error:
            return False

    def _failed(self, error: Exception | str) -> StorageError:
        """One line, with what helps: only a store that is no store any more is to be deleted."""
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if isinstance(error, OSError):
            remedy = remedy_for(error, "--store")
        elif code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            remedy = "Wait until the other audit has ended, or name another --store"
        elif code in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN):
            remedy = "Free some space, or name another --store"
        elif code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM):
            remedy = "Make it writable, or name another --store"
        else:
            remedy = "Delete it, or name another --store"
        known = isinstance(error, str | sqlite3.Error | OSError)
        reason = error if known else "a row in it is damaged"  # whose text may be an answer
        return StorageError(f"the response store {self.path} cannot be used: {reason}", remedy)


_OPEN: WeakSet[ResponseStore] = WeakSet()
"""Stores that this process has open: to close a second handle of a file drops the locks that SQLite holds on it."""


def _is_open_here(path: Path) -> bool:
    return path.exists() and _identity(path) in {store._file for store in _OPEN}


def _identity(path: Path) -> tuple[int, int]:
    found = path.stat()
    return found.st_dev, found.st_ino


def _require_database(path: Path) -> None:
    """Create the file, or raise sqlite3.DatabaseError for one of a few bytes, which SQLite would write over."""
    handle = os.open(path, os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW, 0o600)
    with os.fdopen(handle, "rb") as file:
        if file.read(len(_MAGIC)) not in (b"", _MAGIC):
            raise sqlite3.DatabaseError("it is not a database")


def _require_plain(path: Path) -> None:
    """Refuse what is no file before it is opened: a pipe would be waited for, a link leads elsewhere."""
    for place in (path, *(path.with_name(path.name + end) for end in _BESIDE)):
        try:
            mode = place.lstat().st_mode
        except ValueError as error:  # a NUL in the name
            raise UsageError(f"{path} is no name of a file", "Name another --store") from error
        except OSError:
            continue
        if not stat.S_ISREG(mode):
            raise AuditError(f"the response store {place} is a {kind_of(mode)}, not a file", "Name another --store")


def _schema(database: sqlite3.Connection) -> set[tuple[str, str, str]]:
    """Kind, name and definition of everything that is defined, but for what SQLite adds itself."""
    rows = database.execute("SELECT type, name, sql FROM sqlite_master WHERE sql IS NOT NULL")
    return {(str(kind), str(name), " ".join(str(sql).split())) for kind, name, sql in rows}


@cache
def _own_schema() -> set[tuple[str, str, str]]:
    with sqlite3.connect(":memory:") as database:
        database.executescript(_SCHEMA)
        return _schema(database)


def stored_response(*row: object) -> Response:
    """A row, but for its key, as a response.

    Raises:
        ValueError: Not what put has written.
        TypeError: Likewise.
    """
    said, confidence, loss, tokens, each = row
    answer = json.loads(said) if isinstance(said, str) else None
    if (
        not isinstance(answer, str)
        or not isinstance(confidence, float | None)
        or not isinstance(loss, float | None)
        or not isinstance(tokens, int | None)
        or not isinstance(each, bytes | None)
    ):
        raise TypeError("a row holds no response")
    return Response(answer, confidence, loss, tokens, tuple(array(_SINGLE, each)) if each is not None else None)
