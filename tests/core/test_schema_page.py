"""The page with every field of results.json, and the check of a file."""

import json
from pathlib import Path

import pytest

from pfl_audit.cli.main import run
from pfl_audit.cli.schema import schema_page
from pfl_audit.core.results import VERSION, Results, read_results, write_results
from tests.reports.made import results

PAGE = Path(__file__).parents[2] / "docs/results-schema.md"
Capture = pytest.CaptureFixture[str]


def test_every_field_has_a_meaning() -> None:
    schema = Results.model_json_schema()
    objects = {"Results": schema, **schema["$defs"]}
    fields = {f"{name}.{field}": about for name, one in objects.items() for field, about in one["properties"].items()}
    assert [name for name, about in fields.items() if not about.get("description")] == []


def test_the_page_is_current() -> None:
    """``pfl-audit schema --markdown > docs/results-schema.md`` writes it."""
    assert PAGE.read_text() == schema_page()


def test_a_file_is_checked(tmp_path: Path, capsys: Capture) -> None:
    write_results(results(), tmp_path)
    assert run(["schema", "--check", str(tmp_path / "results.json")]) == 0
    assert f"is valid, and read as version {VERSION}: 9 checks" in capsys.readouterr().out
    value = json.loads((tmp_path / "results.json").read_text())
    (tmp_path / "results.json").write_text(json.dumps(value | {"\x1b[2J": 1}))
    assert run(["schema", "--check", str(tmp_path)]) == 2
    said = capsys.readouterr().err
    assert "does not fit schema" in said
    assert "\x1b" not in said
    assert run(["schema", "--check", str(tmp_path / "none.json")]) == 4


def test_versions_only_add(tmp_path: Path) -> None:
    """A file of version 2 lacks what 2.1 added, and is read with the defaults."""
    value = results().model_dump(mode="json")
    value["schema_version"] = "2"
    gate = value["verdict"]["gate"]
    value["verdict"]["gate"] = {"fail_on": gate["fail_on"], "over": gate["over"]}
    del value["provenance"]["config"]
    (tmp_path / "results.json").write_text(json.dumps(value))
    found = read_results(tmp_path)
    assert (found.schema_version, found.verdict.gate.numbers) == (VERSION, [])
    (tmp_path / "results.json").write_text(json.dumps(value | {"schema_version": "2.9"}))
    assert run(["schema", "--check", str(tmp_path)]) == 2
