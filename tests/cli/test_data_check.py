import json
from pathlib import Path

import pytest

from pfl_audit.cli.main import run
from pfl_audit.core.power import NEEDED

RED = Path(__file__).parents[2] / "fixtures/red"


def test_the_power_table_fits_a_terminal(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert run(["data", "check", str(RED), "--no-images", "-q"]) == 0
    lines = capsys.readouterr().out.splitlines()
    table = lines[lines.index("0 records cannot be used") + 3 :]
    table = table[: table.index("")]
    assert len(table) == 10
    assert all(len(line.rstrip()) <= 80 and "…" not in line for line in table)
    (line,) = [line for line in table if "60 % right" in line]
    assert line.split()[-4:] == ["47", "%", "34", "%"]


def test_the_power_table_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["data", "check", str(RED), "--no-images", "-q", "--json"]) == 0
    power = json.loads(capsys.readouterr().out)["power"]
    assert (power["members"], power["pages_of_members"]) == (100, 223)
    assert {row["leak"] for row in power["rows"]} == set(power["smallest"]) == {"accuracy", "gap"}
    assert 0.6 < power["smallest"]["accuracy"]["alone"] < 0.7


def test_too_few_providers(corpus_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["data", "check", str(corpus_folder), "--no-images", "-q"]) == 0
    out = capsys.readouterr().out
    assert f"Too few to audit: 10 member and 10 non-member providers, {NEEDED} of each are needed" in out
    assert "share of audits" not in out
