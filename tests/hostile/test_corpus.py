from pathlib import Path

import pytest

from tests.hostile.case import Case
from tests.hostile.corpus import all_cases
from tests.hostile.run import Runner, faults


@pytest.mark.parametrize("case", all_cases(), ids=lambda case: f"{case.door}: {case.name}")
def test_a_hostile_input_costs_one_line(case: Case, tmp_path: Path, zygote: Runner) -> None:
    folder = tmp_path / "case"
    folder.mkdir()
    outcome = zygote(case.make(folder), folder)
    assert not faults(case, outcome, folder), outcome
