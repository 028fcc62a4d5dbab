"""What a command does to its process is its outcome alone, and the next command finds a process as it should be."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pfl_audit.cli import main
from tests.hostile import server, worker

Command = Callable[[list[str]], int]


class Commands:
    """Runs functions in place of the command line, all in one worker as long as it lives."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "case"
        self._folder.mkdir()
        self._worker: server.Worker | None = None

    def __call__(self, name: str) -> dict[str, Any]:
        if self._worker is None or self._worker.ended:
            self._worker = server.Worker()
        return self._worker.run([name], str(self._folder))

    def printed(self) -> str:
        return Path(f"{self._folder}.stdout").read_text()


def _print(*values: object) -> None:
    os.write(1, f"{' '.join(map(str, values))}\n".encode())  # sys.stdout is that of pytest


def _print_process(_: list[str]) -> int:
    _print(os.getpid())
    return 0


def _die(_: list[str]) -> int:
    os.kill(os.getpid(), signal.SIGSEGV)
    return 0


def _hang(_: list[str]) -> int:
    time.sleep(60)
    return 0


def _compute(_: list[str]) -> int:
    while True:
        pass


def _fill_memory(_: list[str]) -> int:
    try:
        bytearray(2 * worker.MEMORY)
    except MemoryError:
        return 7
    return 0


def _raise(_: list[str]) -> int:
    raise RuntimeError


def _exit(_: list[str]) -> int:
    raise SystemExit(4)


def _exit_at_once(_: list[str]) -> int:
    os._exit(5)


def _leave_a_thread(_: list[str]) -> int:
    threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
    return 0


def _leave_a_process(_: list[str]) -> int:
    _print(subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]).pid)
    return 0


def _change_the_process(_: list[str]) -> int:
    os.environ["PFL_AUDIT_CHANGED"] = "1"
    os.chdir("/")
    return 0


def _show_the_process(_: list[str]) -> int:
    _print(os.environ.get("PFL_AUDIT_CHANGED"), Path.cwd().name)
    return 0


COMMANDS: dict[str, Command] = {
    "process": _print_process, "die": _die, "hang": _hang, "compute": _compute, "memory": _fill_memory, "raise": _raise,
    "exit": _exit, "exit at once": _exit_at_once, "thread": _leave_a_thread, "child": _leave_a_process,
    "change": _change_the_process, "show": _show_the_process,
}  # fmt: skip


@pytest.fixture
def commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Commands]:
    monkeypatch.setattr(main, "run", lambda arguments: COMMANDS[arguments[0]](arguments))
    monkeypatch.setattr(worker, "CPU_SECONDS", 1)
    running = Commands(tmp_path)
    yield running
    running("exit at once")


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("name", "code", "late"),
    [
        ("die", -signal.SIGSEGV, False),
        ("hang", -signal.SIGKILL, True),
        ("compute", -signal.SIGXCPU, False),
        ("raise", 99, False),
        ("exit at once", 5, False),
        ("thread", 0, False),
    ],
)
def test_another_process_takes_over_from_one_that_is_not_as_it_was(
    commands: Commands, name: str, code: int, late: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    commands("process")
    before = commands.printed()
    if late:
        monkeypatch.setattr(server, "_WALL_SECONDS", 3)
    found = commands(name)
    assert (found["code"], found["late"]) == (code, late)
    assert commands("process")["code"] == 0
    assert commands.printed() != before


@pytest.mark.parametrize(("name", "code"), [("process", 0), ("exit", 4), ("memory", 7), ("change", 0)])
def test_one_process_runs_one_command_after_another(commands: Commands, name: str, code: int) -> None:
    commands("process")
    before = commands.printed()
    assert commands(name)["code"] == code
    assert commands("process")["code"] == 0
    assert commands.printed() == before


@pytest.mark.slow
def test_the_seconds_of_one_command_are_not_those_of_the_next(commands: Commands) -> None:
    commands("process")
    commands("compute")
    assert commands("process")["cpu"] < 1


def test_a_command_finds_neither_environment_nor_folder_of_the_one_before(commands: Commands) -> None:
    commands("change")
    commands("show")
    assert commands.printed() == "None case\n"


def test_a_process_that_a_command_left_is_ended(commands: Commands) -> None:
    commands("child")
    left = int(commands.printed())
    for _ in range(1000):
        if not _runs(left):
            break
        time.sleep(0.01)
    assert not _runs(left)


def _runs(process: int) -> bool:
    try:
        return "(zombie)" not in Path(f"/proc/{process}/status").read_text()
    except OSError:
        return False
