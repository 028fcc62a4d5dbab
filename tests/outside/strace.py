"""What a process and its children do outside: addresses that they turn to, and files that they write, by strace."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

_TALK = ("connect", "sendto", "sendmsg", "sendmmsg")
_OPEN = ("open", "openat", "openat2", "creat")
_MAKE = ("mkdir", "mkdirat", "rename", "renameat", "renameat2", "link", "linkat", "symlink", "symlinkat", "mknod")
_CALL = re.compile(r"^(?P<pid>\d+) +(?P<name>\w+)\((?P<given>.*)$")
_RESUMED = re.compile(r"^(?P<pid>\d+) +<\.\.\. \w+ resumed>(?P<rest>.*)$")
_NAME = re.compile(r'(?:(?:AT_FDCWD|\d+)<([^>"]*)>, )?"((?:[^"\\]|\\.)*)"')


@dataclass
class Seen:
    """What was done outside.

    Attributes:
        talk: System calls that name an address of the internet, as strace prints them.
        written: Files and folders that were made, renamed to, or opened for writing.
    """

    talk: list[str] = field(default_factory=list)
    written: list[Path] = field(default_factory=list)

    def outside(self, *allowed: Path) -> list[Path]:
        """What was written anywhere but in these folders, their parents made on the way, and memory.

        /dev/shm/sem.* are semaphores that joblib makes and removes at once.
        """
        parents = {Path(os.devnull), *(parent for folder in allowed for parent in folder.parents)}
        return sorted(
            path
            for path in set(self.written) - parents
            if not any(path.is_relative_to(folder) for folder in allowed) and not path.match("/dev/shm/sem.*")
        )


@cache
def strace_works() -> bool:
    """Whether strace is installed and may trace here."""
    try:
        done = subprocess.run([*_strace(Path(os.devnull)), "true"], capture_output=True, check=False, timeout=20)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


def start_traced(command: list[str], trace: Path, cwd: Path, environment: Mapping[str, str]) -> subprocess.Popen[str]:
    """Start a command under strace, its stdout and stderr in one pipe; ``end_traced`` ends it early."""
    return subprocess.Popen(
        [*_strace(trace), *command], cwd=cwd, env=dict(environment), text=True, process_group=0,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip


def end_traced(process: subprocess.Popen[str]) -> None:
    """End strace and the command: a signal to strace alone does not reach the command, which holds the pipe."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.communicate()


def read_trace(trace: Path, cwd: Path) -> Seen:
    """Read what strace has written so far.

    Args:
        trace: Its output.
        cwd: Folder that relative paths are taken from.
    """
    seen = Seen()
    for name, call in _calls(trace):
        given, _, result = call.rpartition(" = ")
        if name in _TALK:
            if "sa_family=AF_INET" in given or (name != "connect" and re.match(r"\d+<(TCP|UDP)", given)):
                seen.talk.append(f"{name}({call}")
        elif result.startswith("-1"):
            continue
        elif name in _OPEN:
            if name == "creat" or re.search(r"O_WRONLY|O_RDWR|O_CREAT", given):
                opened = re.match(r"\d+<(.*?)(?:<char [\d:]+>)?>$", result.strip())
                seen.written.append(Path(opened[1]) if opened else _last_name(given, cwd))
        else:
            seen.written.append(_last_name(given, cwd))
    return seen


def _last_name(given: str, cwd: Path) -> Path:
    """The last path among a call's arguments, below the folder that comes before it."""
    folder, name = _NAME.findall(given)[-1]
    return cwd / folder / name


def _strace(trace: Path) -> list[str]:
    calls = ",".join((*_TALK, *(f"?{name}" for name in (*_OPEN, *_MAKE))))  # "?": not every processor has them all
    return [
        "strace",
        "-f",
        "--seccomp-bpf",
        "-qq",
        "-yy",
        "-e",
        "signal=none",
        "-e",
        f"trace={calls}",
        "-o",
        str(trace),
    ]


def _calls(trace: Path) -> Iterator[tuple[str, str]]:
    """Name and rest of every call; one that another thread's call cut in two is put together."""
    begun: dict[str, tuple[str, str]] = {}
    for line in trace.read_text(errors="replace").splitlines():
        if found := _CALL.match(line):
            pid, name, given = found.groups()
            if given.endswith("<unfinished ...>"):
                begun[pid] = (name, given.removesuffix("<unfinished ...>"))
            else:
                yield name, given
        elif (found := _RESUMED.match(line)) and found["pid"] in begun:
            name, given = begun.pop(found["pid"])
            yield name, given + found["rest"]
    yield from begun.values()
