import os
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from pfl_audit.core.store import Records, ResponseStore
from pfl_audit.errors import AuditError, StorageError
from pfl_audit.models.protocol import Response


def test_what_is_put_is_found_again(tmp_path: Path) -> None:
    responses = {f"k{number}": Response(f"ü\ud83d{number}"[:3], 0.5, None, None) for number in range(1200)}
    with ResponseStore(tmp_path / "x.sqlite") as store:
        store.put(responses)
    with ResponseStore(tmp_path / "x.sqlite") as store:
        assert len(store) == 1200
        assert store.get(["k7", "k1199", "other", "k7"]) == {"k7": responses["k7"], "k1199": responses["k1199"]}


def test_only_the_owner_can_read_it(tmp_path: Path) -> None:
    with ResponseStore(tmp_path / "x.sqlite"):
        assert (tmp_path / "x.sqlite").stat().st_mode & 0o077 == 0


def test_a_killed_process_loses_at_most_the_batch_it_was_at(tmp_path: Path) -> None:
    script = (
        "import sys, os, signal\n"
        "from pathlib import Path\n"
        "from pfl_audit.core.store import ResponseStore\n"
        "from pfl_audit.models.protocol import Response\n"
        "store = ResponseStore(Path(sys.argv[1]))\n"
        "for batch in range(5):\n"
        "    store.put({f'{batch}-{n}': Response('x') for n in range(10)})\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run([sys.executable, "-c", script, str(tmp_path / "x.sqlite")], check=False)
    assert done.returncode == -signal.SIGKILL
    with ResponseStore(tmp_path / "x.sqlite") as store:
        assert len(store) == 50


def test_another_file_or_version_is_refused(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("not a database, but a text that is long enough to be looked at")
    with pytest.raises(AuditError, match="cannot be used"):
        ResponseStore(tmp_path / "text")
    with sqlite3.connect(tmp_path / "new") as database:
        database.execute("PRAGMA user_version=99")
    with pytest.raises(AuditError, match="another version"):
        ResponseStore(tmp_path / "new")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_is_one_clear_error() -> None:
    with pytest.raises(AuditError, match="cannot be used"):
        ResponseStore(Path("/dev/full/x.sqlite"))


@pytest.mark.parametrize(
    "row",
    [
        "'{', NULL, NULL, NULL, NULL",
        "'3', NULL, NULL, NULL, NULL",
        "'\"x\"', 'abc', NULL, NULL, NULL",
        "'\"x\"', NULL, NULL, NULL, 'abcd'",
        "'\"x\"', NULL, NULL, NULL, x'0000000000'",
    ],
)
def test_a_row_that_is_no_response(tmp_path: Path, row: str) -> None:
    with ResponseStore(tmp_path / "x.sqlite"):
        pass
    with sqlite3.connect(tmp_path / "x.sqlite") as database:
        database.execute(f"INSERT INTO responses VALUES ('k', {row})")
    with (
        ResponseStore(tmp_path / "x.sqlite") as store,
        pytest.raises(AuditError, match=r"x\.sqlite cannot be used: .*Delete it, or name another --store"),
    ):
        store.get(["k"])


@pytest.mark.parametrize("table", ["responses (a)", "meta (a)"])
def test_tables_of_other_columns(tmp_path: Path, table: str) -> None:
    with sqlite3.connect(tmp_path / "x.sqlite") as database:
        database.execute(f"CREATE TABLE {table}")
    with pytest.raises(AuditError, match=r"cannot be used: .*Delete it, or name another --store"):
        ResponseStore(tmp_path / "x.sqlite")


def test_another_programs_database_is_left_alone(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "x.sqlite") as database:
        database.execute("CREATE TABLE bookmarks (a)")
    before = (tmp_path / "x.sqlite").read_bytes()
    with pytest.raises(AuditError, match=r"is another program's database\. Name another --store"):
        ResponseStore(tmp_path / "x.sqlite")
    assert (tmp_path / "x.sqlite").read_bytes() == before


def test_a_file_that_is_damaged_in_the_middle(tmp_path: Path) -> None:
    path = tmp_path / "x.sqlite"
    keys = [f"k{number}" for number in range(2000)]
    with ResponseStore(path) as store:
        store.put({key: Response("x" * 50, 0.5, 0.5, 3) for key in keys})
    content = bytearray(path.read_bytes())
    content[4 * 4096 :] = b"\xff" * (len(content) - 4 * 4096)
    path.write_bytes(content)
    with (
        pytest.raises(AuditError, match=r"x\.sqlite cannot be used: .*Delete it, or name another --store"),
        ResponseStore(path) as store,
    ):
        store.get(keys)


def test_records_are_found_again_and_counted(tmp_path: Path) -> None:
    value = {"guesses": [{"tokens": [1, 2], "name": "ü\ud83d"}], "none": None}
    with ResponseStore(tmp_path / "x.sqlite") as store:
        Records(store).put("k", {"older": 1})
        Records(store).put("k", value)
    with ResponseStore(tmp_path / "x.sqlite") as store:
        records = Records(store)
        assert records.get("k") == value
        assert records.get("other") is None
        records.put("new", {})
        assert (records.got_count, records.put_count) == (1, 1)
        assert len(store) == 0  # they are no responses


def test_a_killed_process_loses_no_record_that_was_put(tmp_path: Path) -> None:
    script = (
        "import sys, os, signal\n"
        "from pathlib import Path\n"
        "from pfl_audit.core.store import Records, ResponseStore\n"
        "records = Records(ResponseStore(Path(sys.argv[1])))\n"
        "for number in range(5):\n"
        "    records.put(str(number), {'n': number})\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run([sys.executable, "-c", script, str(tmp_path / "x.sqlite")], check=False)
    assert done.returncode == -signal.SIGKILL
    with ResponseStore(tmp_path / "x.sqlite") as store:
        assert [Records(store).get(str(number)) for number in range(6)] == [
            *({"n": number} for number in range(5)),
            None,
        ]


@pytest.mark.parametrize("value", ["{", "3", "[]", "[" * 100_000])
def test_a_row_that_is_no_record(tmp_path: Path, value: str) -> None:
    with ResponseStore(tmp_path / "x.sqlite"):
        pass
    with sqlite3.connect(tmp_path / "x.sqlite") as database:
        database.execute("INSERT INTO records VALUES ('k', ?)", (value,))
    with (
        ResponseStore(tmp_path / "x.sqlite") as store,
        pytest.raises(AuditError, match=r"x\.sqlite cannot be used: .*Delete it, or name another --store"),
    ):
        Records(store).get("k")


def test_a_store_without_records_gets_them(tmp_path: Path) -> None:
    """As it was written before there were any."""
    with ResponseStore(tmp_path / "x.sqlite") as store:
        store.put({"k": Response("x")})
    with sqlite3.connect(tmp_path / "x.sqlite") as database:
        database.execute("DROP TABLE records")
    with ResponseStore(tmp_path / "x.sqlite") as store:
        Records(store).put("k", {"n": 1})
        assert store.get(["k"])["k"].answer == "x"
        assert Records(store).get("k") == {"n": 1}


def test_losses_of_tokens_come_back_in_single_precision(tmp_path: Path) -> None:
    exact = {
        "a": Response("x", 0.5, 1.0, 3, (0.5, 2.5, 2.0**-20)),
        "b": Response("x", token_losses=()),
        "c": Response("y"),
    }
    with ResponseStore(tmp_path / "x.sqlite") as store:
        store.put({**exact, "d": Response("z", None, 0.1, 1, (0.1,))})
    with ResponseStore(tmp_path / "x.sqlite") as store:
        found = store.get("abcd")
    assert {key: found[key] for key in exact} == exact
    assert found["d"].loss == 0.1
    assert found["d"].token_losses == (float(np.float32(0.1)),)


def test_a_store_of_the_first_version_is_read_and_gets_losses_of_tokens(tmp_path: Path) -> None:
    with ResponseStore(tmp_path / "x.sqlite") as store:
        store.put({"k": Response("x", 0.5, 1.0, 3)})
    with sqlite3.connect(tmp_path / "x.sqlite") as database:
        database.execute("ALTER TABLE responses DROP COLUMN token_losses")
        database.execute("PRAGMA user_version=1")
    for _ in range(2):
        with ResponseStore(tmp_path / "x.sqlite") as store:
            assert store.get(["k"]) == {"k": Response("x", 0.5, 1.0, 3)}
            store.put({"new": Response("x", token_losses=(1.0,))})
            assert store.get(["new"])["new"].token_losses == (1.0,)
    with sqlite3.connect(tmp_path / "x.sqlite") as database:
        assert database.execute("PRAGMA user_version").fetchone() == (2,)


HOSTILE = {
    "a view in the place of a table": "CREATE VIEW responses AS SELECT 1 AS key, 2 AS answer, 3 AS confidence",
    "a trigger": "CREATE TRIGGER t AFTER INSERT ON responses BEGIN DELETE FROM responses; END",
    "an index": "CREATE INDEX i ON responses (answer)",
    "a generated column": "CREATE TABLE other (a, b AS (a))",
}


@pytest.mark.parametrize("statement", HOSTILE.values(), ids=HOSTILE.keys())
def test_a_schema_that_is_not_ours(tmp_path: Path, statement: str) -> None:
    with ResponseStore(tmp_path / "x.sqlite"):
        pass
    with sqlite3.connect(tmp_path / "x.sqlite") as database:
        if "VIEW" in statement:
            database.execute("DROP TABLE responses")
        database.execute(statement)
    before = (tmp_path / "x.sqlite").read_bytes()
    with pytest.raises(AuditError, match="is another program's database"):
        ResponseStore(tmp_path / "x.sqlite")
    assert (tmp_path / "x.sqlite").read_bytes() == before


@pytest.mark.parametrize("name", ["x.sqlite", "x.sqlite-wal", "x.sqlite-journal", "x.sqlite-shm"])
@pytest.mark.parametrize("kind", ["named pipe", "link", "folder"])
def test_what_is_no_file_is_never_opened(tmp_path: Path, name: str, kind: str) -> None:
    place = tmp_path / name
    if kind == "named pipe":
        os.mkfifo(place)
    elif kind == "link":
        place.symlink_to(tmp_path / "elsewhere")
    else:
        place.mkdir()
    with pytest.raises(AuditError, match=rf"{name} is a {kind}, not a file\. Name another --store"):
        ResponseStore(tmp_path / "x.sqlite")
    assert not (tmp_path / "elsewhere").exists()


def test_a_value_that_would_fill_the_memory(tmp_path: Path) -> None:
    with ResponseStore(tmp_path / "x.sqlite"):
        pass
    with sqlite3.connect(tmp_path / "x.sqlite") as database:
        database.execute("INSERT INTO records VALUES ('k', zeroblob(100000000))")
    with ResponseStore(tmp_path / "x.sqlite") as store, pytest.raises(StorageError, match="too big"):
        Records(store).get("k")


def test_a_new_store_is_discarded_while_nothing_is_in_it(tmp_path: Path) -> None:
    def fail(path: Path, key: str | None = None) -> None:
        store = ResponseStore(path)
        if key is not None:
            store.put({key: Response("x")})
        with pytest.raises(ZeroDivisionError), store:
            raise ZeroDivisionError

    fail(tmp_path / "a/b/x.sqlite")
    assert list(tmp_path.iterdir()) == []
    fail(tmp_path / "x.sqlite", "k")
    fail(tmp_path / "x.sqlite")
    with ResponseStore(tmp_path / "x.sqlite") as store:
        assert len(store) == 1


def test_a_store_that_another_run_has_opened_is_not_discarded(tmp_path: Path) -> None:
    first = ResponseStore(tmp_path / "x.sqlite")
    with ResponseStore(tmp_path / "x.sqlite") as second:
        first.discard()
        second.put({"k": Response("x")})
    with ResponseStore(tmp_path / "x.sqlite") as store:
        assert len(store) == 1


def test_a_store_that_this_process_has_open_keeps_its_locks(tmp_path: Path) -> None:
    """POSIX drops all locks of a file when a process closes any handle of it, and SQLite's shared lock is one."""
    path = tmp_path / "x.sqlite"
    code = (
        "import fcntl, sys\nwith open(sys.argv[1], 'r+b') as file:\n"
        "    fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 510, 0x40000002)  # SQLite's range of shared locks"
    )
    with ResponseStore(path), ResponseStore(path):
        done = subprocess.run([sys.executable, "-c", code, path], capture_output=True, text=True, check=False)
        assert "BlockingIOError" in done.stderr
