"""Recorded answers of the embedded models to the demo: its test asks for a share of them anew, and compares.

``python -m tests.demo_answers`` records them, in minutes. Answers are found by the content of what is asked of what:
where a model or a page has changed, the demo asks anew, and takes longer.
"""

from __future__ import annotations

import json
import lzma
import math
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path

from pfl_audit.out_folder import OutFolder

RECORDED = Path(__file__).parent / "data/demo"
STORES = ("responses.sqlite", "forms.sqlite")
_BLOCK, _SHARES = 32, {"responses": 36, "records": 12}
"""Rows that a model gave together, and one of how many of these blocks is asked for anew, by table."""
_TABLES = {
    "responses": "SELECT key, answer, confidence, loss, tokens FROM responses ORDER BY rowid",
    "records": "SELECT key, value FROM records ORDER BY rowid",
}
Rows = dict[str, tuple[object, ...]]


def rows_of(store: Path) -> dict[str, Rows]:
    """All that is in a store, by table and key, in the order in which it was put."""
    with closing(sqlite3.connect(store)) as database:
        return {name: {key: tuple(row) for key, *row in database.execute(select)} for name, select in _TABLES.items()}


def begin(out: Path) -> dict[str, dict[str, Rows]]:
    """Leave what a demo leaves that was interrupted: a share of the answers is missing.

    Args:
        out: Folder of the demo.

    Returns:
        What is missing, by store and table. The search for a page in a gradient is among it, whole.
    """
    missing: dict[str, dict[str, Rows]] = {}
    with OutFolder(out, "audit", private=True):
        for name in STORES:
            store = out / name
            store.write_bytes(lzma.decompress((RECORDED / f"{name}.xz").read_bytes()))
            missing[name] = {table: _share(rows, _SHARES[table]) for table, rows in rows_of(store).items()}
            with closing(sqlite3.connect(store)) as database, database:
                for table, rows in missing[name].items():
                    database.executemany(f"DELETE FROM {table} WHERE key = ?", [(key,) for key in rows])
    return missing


def _share(rows: Rows, share: int) -> Rows:
    """One block of so many; the first where there are fewer."""
    return {key: row for number, (key, row) in enumerate(rows.items()) if number // _BLOCK % share == 0}


def differences(wanted: Rows, found: Rows) -> int:
    """How many rows are others than recorded, or missing; numbers may differ by rounding."""
    return sum(key not in found or not _alike(_read(row), _read(found[key])) for key, row in wanted.items())


def _read(row: tuple[object, ...]) -> list[object]:
    return [json.loads(value) if isinstance(value, str) else value for value in row]


def _alike(one: object, other: object) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=1e-3, abs_tol=1e-5)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_alike, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_alike(one[name], other[name]) for name in one)
    return one == other


def main() -> None:
    """Run the demo, and record what its models answer."""
    from pfl_audit.cli.main import run

    with tempfile.TemporaryDirectory() as folder:
        assert run(["demo", "--out", f"{folder}/audit-demo"]) == 0
        RECORDED.mkdir(exist_ok=True)
        for name in STORES:
            packed = Path(folder) / name
            with closing(sqlite3.connect(Path(folder) / "audit-demo" / name)) as database:
                database.execute("VACUUM INTO ?", (str(packed),))
            (RECORDED / f"{name}.xz").write_bytes(lzma.compress(packed.read_bytes(), preset=9))


if __name__ == "__main__":
    main()
