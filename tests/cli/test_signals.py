"""SIGTERM and SIGHUP end a command as Ctrl-C does; a second signal changes nothing."""

import contextlib
import json
import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

Make = Callable[[int], Path]
# A test run in the background, or under nohup, has signals ignored, and its children inherit that.
OBEYED = """
import signal
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, signal.SIG_DFL)
"""
SCRIPT = f"""{OBEYED}
import os, sys, time
import pfl_audit.cli.main as cli
from pfl_audit.core.run_folder import RunFolder
from pathlib import Path

def command(*arguments, **options):
    with RunFolder(Path("run"), {{}}):
        print("ready", flush=True)
        try:
            time.sleep(30)
        finally:
            os.kill(os.getpid(), signal.SIGTERM)  # impatient
            time.sleep(0.1)

cli.click_command = lambda: command
cli.main()
"""


@pytest.mark.sampled(1)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_marks_the_run_as_cancelled(number: signal.Signals, tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", SCRIPT, "list"], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout
        assert process.stderr
        assert process.stdout.readline() == "ready\n"
        process.send_signal(number)
        said = process.stderr.read()
    assert process.returncode == 130
    assert said.startswith("pfl-audit: interrupted; ")
    assert len(said.splitlines()) == 1
    assert json.loads((tmp_path / "run/run.json").read_text())["status"] == "cancelled"


def test_what_nohup_ignores_stays_ignored(tmp_path: Path) -> None:
    code = (
        "import os, signal\nfrom pfl_audit.cli.process import obey_signals\n"
        "signal.signal(signal.SIGHUP, signal.SIG_IGN)\nobey_signals()\n"
        "os.kill(os.getpid(), signal.SIGHUP)\nprint('alive')"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "alive\n"


TERMINAL = f"""{OBEYED}
import os, sys, time
import pfl_audit.cli.main as cli
from pfl_audit.core.run_folder import RunFolder
from pfl_audit.cli.console import make_progress
from pathlib import Path

def command(*arguments, **options):
    with RunFolder(Path(sys.argv[1]), {{}}), make_progress(quiet=False).task("waiting", 3) as task:
        task.advance()
        Path(sys.argv[1], "ready").touch()
        time.sleep(30)

cli.click_command = lambda: command
cli.main()
"""


def test_a_terminal_that_is_closed_interrupts(tmp_path: Path) -> None:
    """The kernel sends SIGHUP, and nothing can be shown any more."""
    child, terminal = pty.fork()
    if child == 0:
        os.execv(sys.executable, [sys.executable, "-c", TERMINAL, str(tmp_path / "run")])
    deadline = time.monotonic() + 60
    while not (tmp_path / "run/ready").exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    os.close(terminal)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 130
    assert json.loads((tmp_path / "run/run.json").read_text())["status"] == "cancelled"


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="a crew needs Linux")
def test_a_training_and_its_crew_end_together(corpus_folder: Path, make_checkpoint: Make, tmp_path: Path) -> None:
    """As a service manager does it: SIGTERM to every process of the group."""
    arguments = [
        "train", "--mode", "fl-dp", "--data", corpus_folder, "--from", make_checkpoint(0), "--out", tmp_path / "ckpt",
        "--rounds", "200", "--local-steps", "1", "--provider-rate", "0.9", "--sigma", "8", "--validate-every", "300",
        "--public-providers", "12",
    ]  # fmt: skip
    code = (
        "import torch, sys\ntorch.set_num_threads(2)\nfrom pfl_audit.cli.main import main\n"
        "sys.argv[0] = 'pfl-audit'\nmain()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, *map(str, arguments)], stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        assert process.stderr
        deadline = time.monotonic() + 200
        state = tmp_path / "ckpt/training-state.safetensors"
        while not state.is_file() and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.02)
        assert state.is_file()
        os.killpg(process.pid, signal.SIGTERM)
        said = process.stderr.read()
    assert process.returncode == 130, said
    assert said.splitlines()[-1].startswith("pfl-audit: interrupted; ")
    deadline = time.monotonic() + 10  # locked children end as their channel closes, and the first process reaps them
    with contextlib.suppress(ProcessLookupError):
        while time.monotonic() < deadline and os.killpg(process.pid, 0) is None:
            time.sleep(0.1)
    with pytest.raises(ProcessLookupError):
        os.killpg(process.pid, 0)
