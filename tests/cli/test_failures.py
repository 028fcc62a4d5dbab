"""What goes wrong is one line, without anything that a terminal obeys, and never the code of a finding."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest
from safetensors.numpy import save_file

from pfl_audit.cli.main import run
from pfl_audit.cli.summary import show_verdict
from pfl_audit.core import attack
from pfl_audit.core.results import Check, Gate, Results
from pfl_audit.errors import AuditError
from tests.hostile.door_results import every_text, results

Capture = pytest.CaptureFixture[str]
Patch = pytest.MonkeyPatch
MAIN = [sys.executable, "-c", "from pfl_audit.cli.main import main; main()"]


def failing(error: BaseException) -> Callable[[], None]:
    def fail() -> None:
        raise error

    return fail


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (ZeroDivisionError("so\nit is"), 2, "internal error: ZeroDivisionError. Set PFL_AUDIT_TRACEBACK=1"),
        (OSError(28, "No space left on device", "x"), 2, "x: No space left on device."),
        (MemoryError(), 2, "out of memory"),
        (KeyboardInterrupt(), 130, "interrupted"),
        (ValueError("SecretName GmbH"), 2, "internal error: ValueError. Set"),
        (OSError("SecretName GmbH"), 2, "internal error: OSError. Set"),
        (AuditError("a\x1b[31mred\x1b[0m\u202e"), 2, "pfl-audit: a [31mred [0m"),
    ],
)
def test_the_unexpected_is_one_line(
    error: BaseException, code: int, message: str, monkeypatch: Patch, capsys: Capture
) -> None:
    monkeypatch.setattr(attack.ATTACKS, "installed", failing(error))
    assert run(["list"]) == code
    out, err = capsys.readouterr()
    assert out == ""
    assert message in err
    assert "\x1b" not in err
    assert "SecretName" not in err
    assert len(err.splitlines()) == 1


def test_the_traceback_is_shown_where_it_is_wanted(monkeypatch: Patch, capsys: Capture) -> None:
    monkeypatch.setenv("PFL_AUDIT_TRACEBACK", "1")
    monkeypatch.setattr(attack.ATTACKS, "installed", failing(ZeroDivisionError("so")))
    assert run(["list"]) == 2
    err = capsys.readouterr().err
    assert "Traceback" in err
    assert "pfl-audit: internal error" in err.splitlines()[-1]


@pytest.mark.sampled(1)
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
@pytest.mark.parametrize("arguments", [["list", "--json"], ["list"], ["schema"], ["--help"]])
def test_a_full_disk_below_stdout(arguments: list[str]) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run([*MAIN, *arguments], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr == "pfl-audit: No space left on device. Check the disk, and where the output goes.\n"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_a_full_disk_below_stderr_changes_no_code() -> None:
    with Path("/dev/full").open("w") as full:
        assert subprocess.run([*MAIN, "nonsense"], stderr=full, check=False).returncode == 4


def test_a_closed_pipe_ends_quietly() -> None:
    process = subprocess.Popen([*MAIN, "schema"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout
    assert process.stderr
    process.stdout.close()
    assert process.stderr.read() == ""
    assert process.wait() == 2


def test_names_in_a_corpus_do_not_reach_the_terminal(tmp_path: Path, capsys: Capture) -> None:
    row = '{"id": "a\\u001b[31m_1", "provider": "Acme", "words": ["x"], "boxes": [[0, 0, 1, 1]], "split": "\\u001b[2J",'
    row += '"image": "images/none.jpg", "questions": [{"question": "Who?", "answers": ["acme"]}]}'
    (tmp_path / "corpus.jsonl").write_text(row + "\n")
    (tmp_path / "images").mkdir()
    (tmp_path / "images/none.jpg").write_bytes(b"no picture")
    assert run(["data", "check", str(tmp_path), "-q"]) == 0
    out = capsys.readouterr().out
    assert "[31m_1" not in out
    assert "\x1b" not in out
    assert run(["data", "check", str(tmp_path), "-q", "--reveal"]) == 0
    out = capsys.readouterr().out
    assert "unusable: a [31m_1: its page image" in out
    assert "\x1b" not in out


def test_tensors_and_model_types_do_not_reach_the_terminal(tmp_path: Path, capsys: Capture) -> None:
    save_file({"a": np.zeros(1, np.float32)}, tmp_path / "model.safetensors")
    (tmp_path / "config.json").write_text('{"model_type": "os\\u001b[31m.system"}')
    assert run(["inspect", str(tmp_path), "-q"]) == 2
    err = capsys.readouterr().err
    assert "model type 'os [31m.system'" in err
    assert "\x1b" not in err


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--device", "cpu"], "--device means nothing without --open or --red: headers alone are read"),
        (["--reveal"], "--reveal means nothing without --red"),
        (["--open", "--reveal"], "--reveal means nothing without --red"),
    ],
)
def test_inspect_refuses_what_it_would_not_look_at(words: list[str], says: str, capsys: Capture) -> None:
    checkpoint = str(Path(__file__).parents[2] / "fixtures/vt5-finetuned")
    assert run(["inspect", checkpoint, "-q", *words]) == 4
    assert says in capsys.readouterr().err
    assert run(["inspect", checkpoint, "-q"]) == 0


def test_a_long_name_does_not_push_the_finding_off_the_terminal(tmp_path: Path, capsys: Capture) -> None:
    value = results()
    every_text("W" * 300)(value)
    show_verdict(Results.model_validate(value), tmp_path, [])
    row = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("LEAK "))
    assert "70.0 %" in row
    assert "[60.0, 80.0]" in row
    assert row.rstrip().endswith("50.0 %")


def test_results_from_elsewhere_do_not_reach_the_terminal(tmp_path: Path, capsys: Capture) -> None:
    check = Check(id="a.b", title="t", family="a", status="skipped", reason="why\x1b[31m")
    results = SimpleNamespace(
        verdict=SimpleNamespace(
            status="leaks", summary="so\x1b[2J", gate=Gate(fail_on="leak", over=[], lacking=["a.b\x1b[2J"])
        ),
        checks=[check],
        target=SimpleNamespace(claim_review=None),
        published=[],
    )
    show_verdict(cast("Results", results), tmp_path, [])
    out = capsys.readouterr().out
    assert "so [2J" in out
    assert "skipped: a.b: why [31m" in out
    assert "\x1b" not in out


@pytest.mark.parametrize(
    ("arguments", "code", "problem"),
    [
        (["mia", "--json"], 4, "--red"),
        (["mia", "--red", "x", "--nonsense", "--json"], 4, "--nonsense"),
        (["--json"], 4, "--json"),
        (["inspect", "nowhere", "--json"], 4, "nowhere"),
        (["report", "run\x1b[31m", "--json"], 4, "run [31m"),
        (["inspect", "nowhere", "--config", "json.toml"], 4, "nowhere"),
        (["train", "--out", "x", "--json"], 4, "--data is needed"),
    ],
)
def test_errors_are_json_where_that_is_asked_for(
    arguments: list[str], code: int, problem: str, tmp_path: Path, monkeypatch: Patch, capsys: Capture
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "json.toml").write_text("json = true\n")
    assert run(arguments) == code
    out, err = capsys.readouterr()
    error = json.loads(out)["error"]
    assert set(error) == {"code", "problem", "remedy"}
    assert error["code"] == code
    assert problem in error["problem"]
    said = error["problem"] if error["problem"].endswith("?") else f"{error['problem']}."
    assert err == f"pfl-audit: {said} {error['remedy']}.\n"
    assert run(["inspect", "nowhere"]) == 4
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(("error", "code"), [(KeyboardInterrupt(), 130), (ZeroDivisionError("SecretName"), 2)])
def test_the_unexpected_is_json_too(error: BaseException, code: int, monkeypatch: Patch, capsys: Capture) -> None:
    monkeypatch.setattr(attack.ATTACKS, "installed", failing(error))
    assert run(["list", "--json"]) == code
    out = capsys.readouterr().out
    assert json.loads(out)["error"]["code"] == code
    assert "SecretName" not in out
