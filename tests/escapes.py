"""Attempts of code that has taken a sandboxed child over, each of which a child without the lock succeeds in."""

import ctypes
import fcntl
import os
import resource
import socket
import struct
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from pfl_audit.sandbox import RefusedError

Attempt = Callable[[str, int, int], object]


ATTEMPTS: dict[str, tuple[Attempt, frozenset[str]]] = {}
"""Name to attempt, and to the parts of the lock that refuse it."""


def _refused(name: str, *parts: str) -> Callable[[Attempt], Attempt]:
    """Lists the decorated attempt with the parts of the lock that refuse it."""

    def listed(attempt: Attempt) -> Attempt:
        ATTEMPTS[name] = attempt, frozenset(parts)
        return attempt

    return listed


@_refused("connect by TCP", "Landlock", "seccomp")
def _tcp(place: str, port: int, address: int) -> object:
    return socket.create_connection(("127.0.0.1", port), 5).close()


@_refused("listen by TCP", "Landlock", "seccomp")
def _tcp_server(place: str, port: int, address: int) -> object:
    with socket.socket() as own:
        own.bind(("127.0.0.1", 0))
        return own.listen()


@_refused("send by UDP", "seccomp")
def _udp(place: str, port: int, address: int) -> object:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as own:
        return own.sendto(b"x", ("127.0.0.1", port))


@_refused("connect to an abstract socket", "Landlock", "seccomp")
def _unix(place: str, port: int, address: int) -> object:
    with socket.socket(socket.AF_UNIX) as own:
        return own.connect(f"\0{Path(place).name}{port}")


@_refused("read a file of the user", "Landlock")
def _read_file(place: str, port: int, address: int) -> object:
    return Path(place, "secret").read_text()


@_refused("list a folder of the user", "Landlock")
def _list_folder(place: str, port: int, address: int) -> object:
    return list(Path(place).iterdir())


@_refused("read the environment of the parent", "Landlock")
def _parent_environment(place: str, port: int, address: int) -> object:
    return Path(f"/proc/{os.getppid()}/environ").read_bytes()


@_refused("open the memory of the parent", "Landlock")
def _parent_memory(place: str, port: int, address: int) -> object:
    with Path(f"/proc/{os.getppid()}/mem").open("rb", buffering=0) as memory:
        memory.seek(address)
        assert memory.read(6) == b"secret"
    return None


@_refused("read the memory of the parent by a call", "Landlock", "seccomp")
def _parent_memory_by_call(place: str, port: int, address: int) -> object:
    class Part(ctypes.Structure):
        _fields_ = (("base", ctypes.c_void_p), ("size", ctypes.c_size_t))

    own = ctypes.create_string_buffer(6)
    here, there = Part(ctypes.addressof(own), 6), Part(address, 6)
    library = ctypes.CDLL(None, use_errno=True)
    if library.process_vm_readv(os.getppid(), ctypes.byref(here), 1, ctypes.byref(there), 1, 0) != 6:
        raise OSError(ctypes.get_errno(), "process_vm_readv")
    return None


@_refused("signal the parent", "Landlock", "seccomp")
def _signal_parent(place: str, port: int, address: int) -> object:
    return os.kill(os.getppid(), 0)


@_refused("truncate a file", "Landlock", "seccomp")
def _truncate(place: str, port: int, address: int) -> object:
    return os.truncate(Path(place, "long"), 0)


@_refused("rename a file", "Landlock", "seccomp")
def _rename(place: str, port: int, address: int) -> object:
    return Path(place, "named").rename(Path(place, "renamed"))


@_refused("remove a file", "Landlock", "seccomp")
def _unlink(place: str, port: int, address: int) -> object:
    return Path(place, "old").unlink()


@_refused("make a file", "Landlock", "seccomp")
def _write(place: str, port: int, address: int) -> object:
    return Path(place, "new").touch()


@_refused("make a folder", "Landlock", "seccomp")
def _make_folder(place: str, port: int, address: int) -> object:
    return Path(place, "folder").mkdir()


@_refused("make a link", "Landlock", "seccomp")
def _link(place: str, port: int, address: int) -> object:
    return Path(place, "link").symlink_to("/")


@_refused("let all read and write a file", "seccomp")
def _open_to_all(place: str, port: int, address: int) -> object:
    return Path(place, "secret").chmod(0o666)


@_refused("change the time of a file", "seccomp")
def _change_time(place: str, port: int, address: int) -> object:
    return os.utime(Path(place, "secret"), (0, 0))


@_refused("run a shell", "Landlock", "seccomp")
def _run_shell(place: str, port: int, address: int) -> object:
    return subprocess.run(["/bin/sh", "-c", "exit 0"], check=True)


@_refused("start 300 processes", "seccomp")
def _fork_300(place: str, port: int, address: int) -> object:
    for _ in range(300):
        if (child := os.fork()) == 0:
            os._exit(0)
        os.waitpid(child, 0)
    return None


@_refused("leave a process behind", "seccomp")
def _daemon(place: str, port: int, address: int) -> object:
    if (child := os.fork()) == 0:
        os.setsid()
        if os.fork() == 0:
            time.sleep(1)
        os._exit(0)
    return os.waitpid(child, 0)


@_refused("make a file in memory", "seccomp")
def _memory_file(place: str, port: int, address: int) -> object:
    return os.close(os.memfd_create("x"))


def _library(name: str, *arguments: object) -> int:
    """Answer of a function of the C library that does not fail."""
    library = ctypes.CDLL(None, use_errno=True)
    if (found := getattr(library, name)(*arguments)) < 0:
        raise OSError(ctypes.get_errno(), name)
    return int(found)


def _system_v(make: str, remove: str, *size: int) -> Attempt:
    def attempt(place: str, port: int, address: int) -> object:
        made = _library(make, 0, *size, 0o1600)
        return _library(remove, made, *(0 for _ in size if make == "semget"), 0, None)

    return attempt


_refused("make shared memory of System V", "seccomp")(_system_v("shmget", "shmctl", 4096))
_refused("make a queue of System V", "seccomp")(_system_v("msgget", "msgctl"))
_refused("make a semaphore of System V", "seccomp")(_system_v("semget", "semctl", 1))


@_refused("make a queue of POSIX", "Landlock", "seccomp")
def _posix_queue(place: str, port: int, address: int) -> object:
    name = f"/pfl-audit-{os.getpid()}".encode()
    try:
        return os.close(_library("mq_open", name, os.O_RDWR | os.O_CREAT, 0o600, None))
    finally:
        ctypes.CDLL(None).mq_unlink(name)  # where it is made and cannot be opened, too


@_refused("type into a terminal", "Landlock", "seccomp")
def _type_into_a_terminal(place: str, port: int, address: int) -> object:
    ends = os.openpty()
    try:
        return fcntl.ioctl(ends[1], termios.TIOCSTI, b"x")
    finally:
        for end in ends:
            os.close(end)


@_refused("let others trace it", "seccomp")
def _become_dumpable(place: str, port: int, address: int) -> object:
    return _library("prctl", 4, 1, 0, 0, 0)


@_refused("lease a file", "seccomp")
def _lease(place: str, port: int, address: int) -> object:
    with Path(__file__).open("rb") as file:
        return fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_RDLCK)


@_refused("raise its own limit", "seccomp")
def _raise_limit(place: str, port: int, address: int) -> object:
    most = resource.getrlimit(resource.RLIMIT_CPU)[1]
    return resource.setrlimit(resource.RLIMIT_CPU, (most, most))


@_refused("start a thread")
def _start_thread(place: str, port: int, address: int) -> object:
    thread = threading.Thread(target=len, args=("",))
    thread.start()
    return thread.join()


def attempt(name: str, *arguments: object) -> bool:
    """True if the attempt succeeded."""
    try:
        ATTEMPTS[name][0](*arguments)  # type: ignore[arg-type]
    except (OSError, ValueError):  # the latter for a limit
        return False
    return True


def content(file: str | BinaryIO) -> bytes:
    """Bytes of a file by its name, or of one that was handed over."""
    return Path(file).read_bytes() if isinstance(file, str) else file.read()


def forge(hexadecimal: str, end: bool) -> None:
    """Write an answer of the code's own to the channel, and maybe end."""
    os.write(int(sys.argv[1]), bytes.fromhex(hexadecimal))
    if end:
        os._exit(0)
    time.sleep(600)


def forge_lists(count: int) -> None:
    """Answer with as many empty lists."""
    text = b"[" + b"[]," * count + b"0]"
    with socket.socket(fileno=int(sys.argv[1])) as channel:
        channel.sendall(struct.pack("<QQII", len(text), 0, 0, 0) + text)


def refuse(reason: str) -> None:
    """Refuse with a reason of the code's own."""
    raise RefusedError(reason)
