"""Settings with which the embedded model of forms is attacked."""

import json
from pathlib import Path

import pytest

from pfl_audit.attacks.reconstruction.specs import ReconstructionSettings
from pfl_audit.cli.main import run

FIXTURES = Path(__file__).parents[2] / "fixtures"


@pytest.mark.parametrize("given", [{}, {"decay_start": 1.5}])
def test_the_embedded_model_is_attacked_as_it_was_tuned(given: dict[str, float], tmp_path: Path) -> None:
    """Settings that are stored with it hold, unless others are given."""
    changed = [f"--set=reconstruction.{name}={value}" for name, value in given.items()]
    fast = ["--fields", "1", "--no-control", "--set=reconstruction.expansions=4", "--attempts", "1"]
    run(["reconstruct", "--out", str(tmp_path / "run"), "--fail-on", "never", "-q", *fast, *changed])
    check = json.loads((tmp_path / "run" / "results.json").read_text())["checks"][0]
    kept = json.loads((FIXTURES / "reconstruction.json").read_text())
    assert kept["public_temperature"] != ReconstructionSettings().public_temperature
    assert {name: check["settings"][name] for name in kept} == kept | given
