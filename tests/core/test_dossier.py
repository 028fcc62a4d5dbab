"""Dossiers: what they hold, and what a changed or a hostile one gives."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from PIL import Image

from pfl_audit.cli.main import run
from pfl_audit.core.dossier import MANIFEST, verify_dossier, write_dossier
from pfl_audit.core.results import Evidence, Results, write_results
from pfl_audit.errors import AuditError, UsageError
from tests.reports.made import HOSTILE, results

Capture = pytest.CaptureFixture[str]


def with_picture() -> Results:
    made = results()
    shown = [Evidence(title="page", picture="evidence/page.jpg"), Evidence(title="no", picture="../private/key")]
    return made.model_copy(update={"checks": [made.checks[0].model_copy(update={"evidence": shown}), *made.checks[1:]]})


@pytest.fixture
def dossier(tmp_path: Path) -> Path:
    folder = tmp_path / "run"
    (folder / "evidence").mkdir(parents=True)
    (folder / "private").mkdir()
    Image.new("RGB", (4, 4)).save(folder / "evidence/page.jpg")
    for name in ("report.html", "configuration.json", "log.jsonl", "private/key"):
        (folder / name).write_text("{}\n")
    write_results(with_picture(), folder)
    write_dossier(with_picture(), folder, [folder / "report.html"], tmp_path / "dossier")
    return tmp_path / "dossier"


def files(dossier: Path) -> list[str]:
    return sorted(path.relative_to(dossier).as_posix() for path in dossier.rglob("*") if path.is_file())


def test_what_a_dossier_holds(dossier: Path) -> None:
    assert files(dossier) == [
        MANIFEST, "configuration.json", "evidence/page.jpg", "log.jsonl", "report.html", "results.json"
    ]  # fmt: skip
    assert subprocess.run(["sha256sum", "--check", "--strict", MANIFEST], cwd=dossier, check=False).returncode == 0
    with pytest.raises(UsageError, match="not empty"):
        write_dossier(with_picture(), dossier.parent / "run", [], dossier)


def test_a_whole_dossier(dossier: Path, capsys: Capture) -> None:
    assert run(["verify", str(dossier), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert {one["status"] for one in found["files"]} == {"verified", "not checked"}
    digest = found["manifest_sha256"]
    assert run(["verify", str(dossier)]) == 0
    said = capsys.readouterr().out
    assert digest in said
    assert "no proof against forgery" in said
    assert run(["verify", str(dossier), "--expect", digest]) == 0
    assert run(["verify", str(dossier), "--expect", "0" * 64]) == 1
    assert run(["verify", str(dossier), "--nonce", "x"]) == 4


def test_one_changed_byte_is_found_in_every_file(dossier: Path) -> None:
    digest = verify_dossier(dossier).digest
    for name in files(dossier):
        path = dossier / name
        whole = path.read_bytes()
        for place in {0, len(whole) // 2, len(whole) - 1}:
            changed = bytearray(whole)
            changed[place] ^= 1
            path.write_bytes(changed)
            try:
                lines = verify_dossier(dossier, digest).lines
            except AuditError:
                assert name == MANIFEST  # it cannot be read any more
            else:
                assert name in {line.name for line in lines if line.status == "contradicted"}, (name, place)
        path.write_bytes(whole)
    assert "contradicted" not in {line.status for line in verify_dossier(dossier, digest).lines}


def test_a_file_that_is_missing_added_or_a_link(dossier: Path) -> None:
    (dossier / "log.jsonl").unlink()
    (dossier / "more.txt").write_text("")
    (dossier / "report.html").unlink()
    (dossier / "report.html").symlink_to("/etc/passwd")
    wrong = {line.name: line.text for line in verify_dossier(dossier).lines if line.status == "contradicted"}
    assert set(wrong) == {"log.jsonl", "more.txt", "report.html"}
    assert "link" in wrong["report.html"]


def _folder_link(dossier: Path) -> None:
    (dossier / "link").symlink_to("/etc")


def _manifest_link(dossier: Path) -> None:
    (dossier / MANIFEST).unlink()
    (dossier / MANIFEST).symlink_to("/etc/passwd")


def _manifest(text: str) -> Callable[[Path], None]:
    return lambda dossier: (dossier / MANIFEST).write_text(text) and None


ZERO = "0" * 64


@pytest.mark.parametrize(
    "spoil",
    [
        _folder_link, _manifest_link, _manifest(""), _manifest("x"), _manifest(f"{ZERO}  /etc/passwd\n"),
        _manifest(f"{ZERO}  ../../etc/passwd\n"), _manifest(f"{ZERO}  a/../../b\n"), _manifest(f"{ZERO}  a\n" * 2),
        _manifest(f"{ZERO}  {MANIFEST}\n"), _manifest(f"{ZERO}  a\x1b[2J\n"), _manifest(f"{ZERO}  a\\..\\b\n"),
        _manifest("".join(f"{ZERO}  {number}\n" for number in range(2_001))), _manifest("0" * (2 << 20)),
        _manifest(f"{ZERO}  {'a' * 5_000}\n"), _manifest(f"\x00{ZERO}  a\n"), _manifest(f"{ZERO}  a//b\n"),
    ],
)  # fmt: skip
def test_a_hostile_dossier_is_one_line(spoil: Callable[[Path], None], dossier: Path, capsys: Capture) -> None:
    spoil(dossier)
    assert run(["verify", str(dossier)]) == 2
    said = capsys.readouterr()
    assert len(said.err.splitlines()) == 1
    assert said.out == ""
    assert "\x1b" not in said.err


def test_names_of_files_reach_no_terminal_as_codes(dossier: Path, capsys: Capture) -> None:
    (dossier / HOSTILE.replace("/", "").replace("\n", "")).write_text("")
    assert run(["verify", str(dossier)]) == 1
    assert "\x1b" not in capsys.readouterr().out
