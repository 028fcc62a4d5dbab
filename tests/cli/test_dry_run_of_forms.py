"""What an audit of forms is going to take."""

import json

import pytest

from pfl_audit.cli.main import run


def test_fields_are_counted_and_some_are_attacked(capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["reconstruct", "--fields", "9", "--set", "reconstruction.control=false", "--dry-run"]
    assert run([*asked, "--json", "-q"]) == 0
    found = json.loads(capsys.readouterr().out)["subjects"]["forms"]
    assert (found["questions"], found["unit"]) == (9, "fields")
    assert found["sample"] == 8
    assert found["seconds"] > 0
    assert run(["reconstruct", "--dry-run", "--label", "no such", "-q"]) == 4
    assert "no form has a field of label 'no such'" in capsys.readouterr().err


def test_the_training_of_shadow_models_is_said_to_come_on_top(capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["reconstruct", "--fields", "2", "--set", "reconstruction.control=false", "--dry-run", "--json", "-q"]
    notes = []
    for more in ((), ("--tune",)):
        assert run([*asked, *more]) == 0
        notes.append(json.loads(capsys.readouterr().out)["subjects"]["forms"]["note"])
    assert ["--tune" in note for note in notes] == [False, True]
