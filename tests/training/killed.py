"""A training command that is killed."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path


def kill_once_there(arguments: list[str], state: Path) -> None:
    """Run the command line, and SIGKILL it as soon as it has saved its state."""
    script = f"from pfl_audit.cli.main import run; run({arguments!r})"
    process = subprocess.Popen([sys.executable, "-c", script], stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 120
    while not state.is_file() and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert state.is_file()
    assert not (state.parent / "model.safetensors").exists()
