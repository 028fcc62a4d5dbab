import json
from pathlib import Path

import pytest

from pfl_audit.cli.main import run
from pfl_audit.cli.run import Ended, _compared
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


def test_a_results_file_stands_for_its_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        write_results(audit(name, check("azk", 0.9)), tmp_path / name)
    files = [str(tmp_path / name / "results.json") for name in ("a", "b")]
    assert run(["compare", *files, "--out", str(tmp_path / "page.html"), "-q"]) == 0
    assert 'href="a/report.html"' in (tmp_path / "page.html").read_text()
    assert run(["report", files[0], "-q"]) == 0
    assert (tmp_path / "a/report.html").is_file()
    assert capsys.readouterr().out == ""


def test_targets_without_results_are_left_out_of_the_comparison(tmp_path: Path) -> None:
    """An audit that could not begin ends with 3 like one whose findings are unresolved, and leaves no results."""
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        write_results(audit(name, check("azk", 0.9)), tmp_path / name)
    ended = {"a": Ended(0), "nothing": Ended(3), "b": Ended(3)}
    assert _compared(tmp_path, ended, show=False) == tmp_path / "comparison.html"
    assert _compared(tmp_path, {"a": Ended(0), "nothing": Ended(3)}, show=False) is None
