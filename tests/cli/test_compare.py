import json
from pathlib import Path

import pytest

from pfl_audit.cli.main import run
from pfl_audit.core.results import write_results
from tests.core.test_comparison import audit, check


def test_two_audits_as_one_json_document(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        write_results(audit(name, check("azk", 0.9)), tmp_path / name)
    folders = [str(tmp_path / name) for name in ("a", "b")]
    assert run(["compare", *folders, "--out", str(tmp_path / "page.html"), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["pages"] == [str(tmp_path / "page.html")]
    assert [column["folder"] for column in found["columns"]] == folders
    assert len(found["datasets"]) == 2
    assert {"utility", "checks", "notes"} <= found.keys()
