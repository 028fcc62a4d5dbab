"""The embedded model of forms, in the commands that are not about forms."""

import json
from pathlib import Path

import pytest

from pfl_audit.cli.main import run

FIXTURES = Path(__file__).parents[2] / "fixtures"
MODEL = FIXTURES / "layoutlm-private"


def test_a_model_of_forms_is_known_to_the_other_commands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["inspect", str(MODEL), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["capabilities"] == ["form loss", "tokens"]
    possible = {name for name, can in found["checks"].items() if can}
    assert possible == {f"reconstruction.{name}" for name in ("guesses", "one_shot", "multi_shot")}
    given = ["--model", str(MODEL), "--red", str(FIXTURES / "red"), "--out", str(tmp_path / "run"), "-q"]
    assert run(["audit", *given]) == 3
    said = capsys.readouterr().err
    assert "that family offers no answers to questions" in said
    assert "'pfl-audit reconstruct'" in said
