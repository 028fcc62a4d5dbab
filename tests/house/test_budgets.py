"""The house keeps its budgets."""

from pathlib import Path

from tests.house import budgets, source
from tests.timing import FIRST, off, read_stated

TESTS = Path(__file__).parents[1]


def test_rooms_keep_their_lines_and_files() -> None:
    found = source.by_room()
    assert not [room for room in found if room not in budgets.ROOMS], "a new room needs a budget"
    assert not [room for room in budgets.ROOMS if room not in found], "a room that is gone has a budget"
    over = {
        room: (have, budgets.ROOMS[room])
        for room, have in found.items()
        if any(one > most for one, most in zip(have, budgets.ROOMS[room], strict=True))
    }
    assert not over, "lines of code and files, found and allowed"


def test_the_whole_keeps_its_lines_and_statements() -> None:
    assert sum(lines for lines, _ in source.by_room().values()) <= budgets.WHOLE
    assert sum(map(source.statements, source.product_files())) <= budgets.STATEMENTS


def test_modules_import_in_one_direction() -> None:
    assert source.circles(source.imports(), "top", "late") == []
    assert len(budgets.TYPE_CIRCLES) <= 3
    assert set(source.circles(source.imports(), "top", "late", "type")) <= budgets.TYPE_CIRCLES


def test_circles_are_found() -> None:
    arrows = {
        "a": {"b": frozenset({"top"})},
        "b": {"c": frozenset({"late"})},
        "c": {"a": frozenset({"type"}), "d": frozenset({"top"})},
        "d": {},
    }
    assert source.circles(arrows, "top", "late") == []
    assert source.circles(arrows, "top", "late", "type") == [frozenset("abc")]


def test_every_file_of_tests_states_its_seconds() -> None:
    stated = read_stated()
    files = {path.relative_to(TESTS).as_posix() for path in TESTS.rglob("test_*.py") if "plugin" not in path.parts[:-2]}
    listed = set().union(*(stated[tier] for tier in budgets.CPU_SECONDS))
    assert not files - listed, "make durations measures them"
    assert not listed - files, "make durations forgets what is gone"


def test_the_stated_seconds_keep_the_budgets() -> None:
    stated = read_stated()
    for tier, most in budgets.CPU_SECONDS.items():
        assert sum(stated[tier].values()) <= most, tier


def test_times_a_factor_of_two_apart_are_named() -> None:
    stated = {"first": {"a.py": 10.0, "b.py": 10.0, "c.py": 10.0, "d.py": 0.1}}
    found = {"first": {"a.py": 19.0, "b.py": 24.0, "c.py": 1.9, "d.py": 2.9, "new.py": 4.0}}
    names = [line.split()[0] for line in off(stated, found, 1.0)]
    assert names == ["b.py", "c.py", "new.py"]
    assert [line.split()[0] for line in off(stated, {FIRST: {"a.py": 30.0}}, 2.0)] == []
