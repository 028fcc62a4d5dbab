"""The hostile corpus: the cases of every door, found by the names of the modules."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from tests.hostile.case import Case


def all_cases() -> list[Case]:
    """Every case, door by door: ``DOOR.cases`` of each module ``door_*.py`` and ``second_*.py`` beside this one."""
    here = Path(__file__).parent
    names = [path.stem for pattern in ("door_*.py", "second_*.py") for path in sorted(here.glob(pattern))]
    return [case for name in names for case in import_module(f"tests.hostile.{name}").DOOR.cases]
