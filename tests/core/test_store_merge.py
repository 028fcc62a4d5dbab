"""Stores of one audit become one store: by content, whole or not at all, and of one model alone."""

import sqlite3
from pathlib import Path

import pytest

from pfl_audit.cli.main import run
from pfl_audit.core.disclosure_control import Total, Totals
from pfl_audit.core.results import Metric
from pfl_audit.core.shared_results import PUBLISHED, published_totals
from pfl_audit.core.store import Records, ResponseStore
from pfl_audit.core.store_merge import merge_stores
from pfl_audit.errors import AuditError, UsageError
from pfl_audit.files import sha256_json
from pfl_audit.models.protocol import Response

ASKED = sha256_json("a model and documents")


def key(number: int) -> str:
    return sha256_json(number)


def store(path: Path, numbers: range, *, asked: str = ASKED, loss: float = 0.5) -> Path:
    with ResponseStore(path) as made:
        made.mark([asked])
        made.put({key(number): Response(f"answer {number}", 0.5, loss, 3) for number in numbers})
        Records(made).put(sha256_json(f"record {numbers}"), {"first": numbers.start})
    return path


def content(path: Path) -> tuple[list[object], list[object]]:
    with ResponseStore(path) as made, made.reading() as database:
        answers = database.execute("SELECT * FROM responses ORDER BY key").fetchall()
        return answers, database.execute("SELECT * FROM records ORDER BY key").fetchall()


@pytest.fixture
def shards(tmp_path: Path) -> list[Path]:
    return [store(tmp_path / f"{at}.sqlite", range(1000 * at, 1000 * (at + 1))) for at in range(3)]


def test_everything_is_in_it(shards: list[Path], tmp_path: Path) -> None:
    done = merge_stores(tmp_path / "all.sqlite", shards)
    assert (done.answers, done.records, done.known, done.different) == (3000, 3, 0, 0)
    answers, records = content(tmp_path / "all.sqlite")
    one = store(tmp_path / "one.sqlite", range(3000))
    assert answers == content(one)[0]
    assert len(records) == 3


def test_again_adds_nothing(shards: list[Path], tmp_path: Path) -> None:
    merge_stores(tmp_path / "all.sqlite", shards[1:])
    done = merge_stores(tmp_path / "all.sqlite", shards)
    assert (done.answers, done.known) == (1000, 2002)
    assert merge_stores(tmp_path / "all.sqlite", shards).answers == 0


def test_what_both_have_published_is_kept(shards: list[Path], tmp_path: Path) -> None:
    metric = Metric(name="ACC", value=0.4, step=0.1, format="percent")
    both = [
        Totals(
            sets={about: frozenset({(about, "company")})},
            numbers=[Total(place=("check", "ACC"), model="0", about=about, metric=metric)],
        )
        for about in ("first", "second")
    ]
    for path, totals in zip(shards, both, strict=False):
        with ResponseStore(path) as made:
            Records(made).put(PUBLISHED, totals.model_dump(mode="json"))
    for _ in range(2):
        merge_stores(tmp_path / "all.sqlite", shards)
        with ResponseStore(tmp_path / "all.sqlite") as made:
            assert published_totals(made) == both[0].joined(both[1])
            assert len(published_totals(made).numbers) == len(published_totals(made).sets) == 2


def test_damaged_totals_add_nothing(shards: list[Path], tmp_path: Path) -> None:
    with ResponseStore(shards[1]) as made:
        Records(made).put(PUBLISHED, {"numbers": 3})
    with pytest.raises(AuditError, match=r"1\.sqlite has published are damaged"):
        merge_stores(tmp_path / "all.sqlite", shards)
    assert content(tmp_path / "all.sqlite")[0] == content(shards[0])[0]


def test_another_model_is_refused_and_nothing_is_made(shards: list[Path], tmp_path: Path) -> None:
    other = store(tmp_path / "other.sqlite", range(5), asked=sha256_json("another model"))
    with pytest.raises(AuditError, match=r"other\.sqlite holds answers of another model"):
        merge_stores(tmp_path / "all.sqlite", [*shards, other])
    assert not (tmp_path / "all.sqlite").exists()


def test_a_store_of_no_audit_is_refused(shards: list[Path], tmp_path: Path) -> None:
    with ResponseStore(tmp_path / "plain.sqlite") as plain:
        plain.put({key(1): Response("x")})
    with pytest.raises(AuditError, match="holds answers of another model"):
        merge_stores(tmp_path / "all.sqlite", [tmp_path / "plain.sqlite", *shards])


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE responses SET answer = '3' WHERE rowid = 7",
        "UPDATE responses SET loss = 'abc' WHERE rowid = 7",
        "UPDATE responses SET key = 'k' WHERE rowid = 7",
        "UPDATE records SET value = '[]'",
        "UPDATE meta SET name = 'asked x' WHERE name LIKE 'asked%'",
        "INSERT INTO meta VALUES ('asked x', '')",
    ],
)
def test_a_damaged_store_adds_nothing(shards: list[Path], tmp_path: Path, damage: str) -> None:
    with sqlite3.connect(shards[1]) as database:
        database.execute(damage)
    out = tmp_path / "all.sqlite"
    with pytest.raises(AuditError):
        merge_stores(out, shards)
    if out.exists():  # the whole stores before it
        assert content(out)[0] == content(shards[0])[0]


def test_a_file_that_was_cut_is_refused(shards: list[Path], tmp_path: Path) -> None:
    data = shards[1].read_bytes()
    shards[1].write_bytes(data[: len(data) // 2])
    with pytest.raises(AuditError, match=r"1\.sqlite"):
        merge_stores(tmp_path / "all.sqlite", shards)


def test_answers_that_differ_are_counted_and_the_first_stays(shards: list[Path], tmp_path: Path) -> None:
    again = store(tmp_path / "again.sqlite", range(990, 1010), loss=0.75)
    done = merge_stores(tmp_path / "all.sqlite", [shards[0], again])
    assert (done.answers, done.different, done.apart) == (1010, 10, 0.25)
    with ResponseStore(tmp_path / "all.sqlite") as merged:
        assert merged.get([key(995)])[key(995)].loss == 0.5
    odd = store(tmp_path / "odd.sqlite", range(5), loss=float("inf"))
    done = merge_stores(tmp_path / "all.sqlite", [odd])
    assert (done.different, done.apart) == (5, 0.0)  # which JSON can hold


def test_stores_that_do_not_exist_and_the_same_twice(shards: list[Path], tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="does not exist"):
        merge_stores(tmp_path / "all.sqlite", [tmp_path / "none.sqlite"])
    with pytest.raises(UsageError, match="is the store to add to"):
        merge_stores(shards[0], [shards[0]])


def test_the_command(shards: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["store", "merge", str(tmp_path / "all.sqlite"), *map(str, shards)]) == 0
    assert capsys.readouterr().out == "3,000 answers and 3 records added, 0 were there\n"
    (tmp_path / "text").write_text("no store, but a text that is long enough to be looked at")
    assert run(["store", "merge", str(tmp_path / "all.sqlite"), str(tmp_path / "text")]) == 2
    assert len(capsys.readouterr().err.strip().splitlines()) == 1
