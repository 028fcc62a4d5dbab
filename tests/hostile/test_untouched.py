"""Nothing that we did not make is written over, and a command that failed at once leaves nothing of its own."""

from pathlib import Path

import pytest

from tests.hostile import door_out, door_store
from tests.hostile.case import Case
from tests.hostile.run import Runner


def state(folder: Path) -> dict[str, object]:
    """Every name, with what it is and what is in it."""
    return {
        str(path.relative_to(folder)): (
            path.readlink() if path.is_symlink() else path.read_bytes() if path.is_file() else path.lstat().st_mode
        )
        for path in folder.rglob("*")
    }


OTHERS = [
    case
    for case in (*door_out.DOOR.cases, *door_store.DOOR.cases)
    if "salt" not in case.name and "second page" not in case.name  # stores of ours, as their schema says
]


@pytest.mark.parametrize("case", OTHERS, ids=lambda case: f"{case.door}: {case.name}")
def test_all_is_left_as_it_was(case: Case, tmp_path: Path, zygote: Runner) -> None:
    folder = tmp_path / "case"
    folder.mkdir()
    arguments = case.make(folder)
    before = state(folder)
    zygote(arguments, folder)
    assert state(folder) == before
