"""An empty path, such as of a variable that is not set, is refused; it is not the folder that the user is in."""

from pathlib import Path

import pytest

from pfl_audit.cli.main import run


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        (["data", "import", "", "--out", "new"], "PATH"),
        (["data", "import", "jsonl", "", "--out", "new"], "PATH"),
        (["data", "check", ""], "PATH"),
        (["data", "convert", ".", "--out", ""], "--out"),
        (["report", ""], "RUN"),
        (["compare", ".", ""], "RUNS"),
        (["audit", "--model", ".", "--red", ""], "--red"),
        (["inspect", ""], "MODEL"),
        (["mia", "--model", "", "--red", "."], "--model"),
        (["mia", "--model", ".", "--pretrained", "", "--red", "."], "--pretrained"),
        (["memorize", "--model", ".", "--control", "", "--red", "."], "--control"),
        (["reconstruct", "--model", ".", "--public-target", ""], "--public-target"),
    ],
)
def test_an_empty_path_is_refused(
    arguments: list[str], name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "page.png").write_bytes(b"")
    monkeypatch.chdir(tmp_path)
    assert run(arguments) == 4
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"pfl-audit: {name} is an empty path. ")
    assert [path.name for path in tmp_path.iterdir()] == ["page.png"]
