"""A hostile input costs one line and the right exit code, and nothing is written over that we did not make."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from _pytest.mark import ParameterSet

from tests.hostile import door_out, door_store
from tests.hostile.case import Case
from tests.hostile.corpus import all_cases
from tests.hostile.run import Runner, faults

OTHERS = {
    case
    for case in (*door_out.DOOR.cases, *door_store.DOOR.cases)
    if "second page" not in case.name  # stores of ours, as their schema says
}
"""Cases whose folder must be left as it was: a command that failed at once leaves nothing of its own."""


def state(folder: Path) -> dict[str, object]:
    """Every name, with what it is and what is in it."""
    return {
        str(path.relative_to(folder)): (
            path.readlink() if path.is_symlink() else path.read_bytes() if path.is_file() else path.lstat().st_mode
        )
        for path in folder.rglob("*")
    }


def tiers(cases: Sequence[Case]) -> Iterator[ParameterSet]:
    """The cases; the first of each door is in the first tier."""
    doors: set[str] = set()
    for case in cases:
        yield pytest.param(case, marks=[pytest.mark.slow] if case.door in doors else [])
        doors.add(case.door)


@pytest.mark.parametrize("case", list(tiers(all_cases())), ids=lambda case: f"{case.door}: {case.name}")
def test_a_hostile_input_costs_one_line(case: Case, tmp_path: Path, zygote: Runner) -> None:
    folder = tmp_path / "case"
    folder.mkdir()
    arguments = case.make(folder)
    before = state(folder) if case in OTHERS else None
    outcome = zygote(arguments, folder)
    assert not faults(case, outcome, folder), outcome
    assert before is None or state(folder) == before
