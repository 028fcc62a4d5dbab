"""An audit with every file that it can write beside its run."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from pfl_audit.cli.main import run
from pfl_audit.core import pdf
from pfl_audit.core.pdf import BROWSERS, print_pdf
from pfl_audit.core.results import read_results
from pfl_audit.core.run_folder import RunLog
from pfl_audit.errors import UsageError

Capture = pytest.CaptureFixture[str]
Make = Callable[[int], Path]


@pytest.fixture(scope="module")
def audited(make_checkpoint: Make, corpus_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of a run and its files, from a configuration that has all keys."""
    folder = tmp_path_factory.mktemp("outputs")
    shutil.copytree(make_checkpoint(0), folder / "vt5-0")  # out of the folder of work, which paths are stated from
    given = {
        "model": str(folder / "vt5-0"),
        "red": str(corpus_folder),
        "check": ["memorization.generalisation"],
        "gate": ["memorization.generalisation : acc >= 99 % on estimate"],
        "fail-on": "never",
        "out": str(folder / "run"),
        "sarif": str(folder / "a.sarif"),
        "junit": str(folder / "a.xml"),
        "dossier": str(folder / "dossier"),
        "quiet": True,
    }
    lines = [f"{key} = {json.dumps(value)}" for key, value in given.items()]
    waiver = 'check = "memorization"\nmetric = "acc"\nreason = "a test"\nname = "A. Engineer"\nexpires = 2099-01-01'
    (folder / "audit.toml").write_text("\n".join([*lines, "[[waivers]]", waiver]))
    assert run(["run", str(folder / "audit.toml")]) == 0
    return folder


def test_a_waived_gate_passes_and_is_recorded(audited: Path) -> None:
    gate = read_results(audited / "run").verdict.gate
    assert [one.status for one in gate.numbers] == ["waived"]
    assert [(one.name, one.status) for one in gate.waivers] == [("A. Engineer", "used")]
    (entry,) = json.loads((audited / "a.sarif").read_text())["runs"][0]["results"]
    assert entry["suppressions"][0]["justification"] == "a test (A. Engineer, until 2099-01-01)"


def test_the_dossier_is_whole_and_has_no_path_of_this_machine(audited: Path) -> None:
    assert run(["verify", str(audited / "dossier")]) == 0
    names = {path.name for path in (audited / "dossier").iterdir()}
    assert {"report.html", "results.json", "configuration.json", "log.jsonl", "a.sarif", "a.xml"} <= names
    configuration = json.loads((audited / "dossier/configuration.json").read_text())
    assert configuration["model"] == "vt5-0"
    assert configuration["gates"] == ["memorization.generalisation : acc >= 99 % on estimate"]
    assert configuration["waivers"][0]["expires"] == "2099-01-01"
    assert len(configuration["config_sha256"]) == 64
    text = "".join(path.read_text() for path in (audited / "dossier").iterdir() if path.suffix in (".json", ".jsonl"))
    assert str(audited) not in text


def test_the_log_has_a_line_for_each_stage_and_nothing_personal(audited: Path) -> None:
    lines = [json.loads(line) for line in (audited / "run/log.jsonl").read_text().splitlines()]
    assert [(line["stage"], line["status"]) for line in lines] == [
        ("open", "success"), ("memorization", "success"), ("results", "success")
    ]  # fmt: skip
    assert all(line["seconds"] >= 0 and line["peak_memory_bytes"] > 1 << 20 for line in lines)
    assert lines[1]["counts"] == {"ran": 1}
    assert set(lines[2]["counts"]) == {"checks", "ran"}, "the number of questions identifies a corpus"
    assert all(isinstance(count, int) for line in lines for count in line["counts"].values())
    assert {key for line in lines for key in line} == {
        "time", "stage", "status", "seconds", "peak_memory_bytes", "counts"
    }  # fmt: skip


def test_a_stage_that_fails_is_logged_without_its_message(tmp_path: Path) -> None:
    log = RunLog(tmp_path)
    for error in (ValueError("Acme GmbH"), KeyboardInterrupt()):
        with pytest.raises(type(error)), log.stage("attack"):
            raise error
    log.write()
    text = (tmp_path / "log.jsonl").read_text()
    assert [json.loads(line)["status"] for line in text.splitlines()] == ["error", "cancelled"]
    assert "Acme" not in text


def test_files_are_made_later_from_the_results(audited: Path, tmp_path: Path, capsys: Capture) -> None:
    again = [
        "report",
        str(audited / "run"),
        "--sarif",
        str(tmp_path / "b.sarif"),
        "--model-card",
        str(tmp_path / "c.md"),
    ]
    assert run([*again, "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["reports"]) == 3
    first, second = (json.loads(path.read_text()) for path in (audited / "a.sarif", tmp_path / "b.sarif"))
    assert first == second
    assert (tmp_path / "c.md").read_text().startswith("---\n")


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--github-summary"], "GITHUB_STEP_SUMMARY is not set"),
        (["--dossier", "."], "is not empty"),
        (["--sarif", "."], "cannot be written"),
        (["--csv", "x", "--latex", "./x"], "two files for other tools have one name"),
    ],
)
def test_what_cannot_be_written_is_one_line(
    more: list[str], message: str, audited: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    monkeypatch.chdir(audited)
    assert run(["report", "run", "-q", *more]) in (2, 4)
    said = capsys.readouterr().err
    assert message in said
    assert len(said.splitlines()) == 1


def test_without_a_browser_the_pdf_is_a_clear_line(
    audited: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.setattr(pdf, "BROWSERS", ("no-such-browser",))
    assert run(["report", str(audited / "run"), "-q", "--pdf", str(tmp_path / "a.pdf")]) == 4
    assert "there is no browser to print the PDF" in capsys.readouterr().err
    with pytest.raises(UsageError):
        print_pdf(audited / "run/report.html", tmp_path / "a.pdf")
    assert not (tmp_path / "a.pdf").exists()


@pytest.mark.skipif(not any(map(shutil.which, BROWSERS)), reason="there is no browser on this machine")
def test_a_browser_prints_the_pdf(audited: Path, tmp_path: Path) -> None:
    assert run(["report", str(audited / "run"), "-q", "--pdf", str(tmp_path / "a.pdf")]) == 0
    assert (tmp_path / "a.pdf").read_bytes().startswith(b"%PDF-")
