"""A training command that is killed or interrupted."""

import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

from pfl_audit.cli.main import run


@contextmanager
def obeyed(number: signal.Signals) -> Iterator[None]:
    """A block in which a signal is an interrupt, as it is in a command."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(number, interrupt)
    try:
        yield
    finally:
        signal.signal(number, before)


def kill_once_there(arguments: list[str], state: Path) -> None:
    """Run the command line in a fork, without a start of its own, and SIGKILL it once it has saved its state."""
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child == 0:
        try:
            _run(arguments)
        finally:
            os._exit(1)
    deadline = time.monotonic() + 120
    ended = 0
    while not state.is_file() and not ended and time.monotonic() < deadline:
        time.sleep(0.01)
        ended, _ = os.waitpid(child, os.WNOHANG)
    if not ended:
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        assert os.WIFSIGNALED(status)
    assert state.is_file()
    assert not (state.parent / "model.safetensors").exists()


def _run(arguments: list[str]) -> None:
    silent = os.open(os.devnull, os.O_RDWR)
    for number in range(3):
        os.dup2(silent, number)
    torch.set_num_threads(1)  # the threads of the first process are not in its fork
    run(arguments)
