"""Attempts of code that has taken a sandboxed child over, each of which a child without the lock succeeds in."""

import ctypes
import os
import resource
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from pfl_audit.sandbox import RefusedError


def _tcp(place: str, port: int, address: int) -> object:
    return socket.create_connection(("127.0.0.1", port), 5).close()


def _tcp_server(place: str, port: int, address: int) -> object:
    with socket.socket() as own:
        own.bind(("127.0.0.1", 0))
        return own.listen()


def _udp(place: str, port: int, address: int) -> object:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as own:
        return own.sendto(b"x", ("127.0.0.1", port))


def _unix(place: str, port: int, address: int) -> object:
    with socket.socket(socket.AF_UNIX) as own:
        return own.connect(f"\0{Path(place).name}{port}")


def _read_file(place: str, port: int, address: int) -> object:
    return Path(place, "secret").read_text()


def _list_folder(place: str, port: int, address: int) -> object:
    return list(Path(place).iterdir())


def _parent_environment(place: str, port: int, address: int) -> object:
    return Path(f"/proc/{os.getppid()}/environ").read_bytes()


def _parent_memory(place: str, port: int, address: int) -> object:
    with Path(f"/proc/{os.getppid()}/mem").open("rb", buffering=0) as memory:
        memory.seek(address)
        assert memory.read(6) == b"secret"
    return None


def _parent_memory_by_call(place: str, port: int, address: int) -> object:
    class Part(ctypes.Structure):
        _fields_ = (("base", ctypes.c_void_p), ("size", ctypes.c_size_t))

    own = ctypes.create_string_buffer(6)
    here, there = Part(ctypes.addressof(own), 6), Part(address, 6)
    library = ctypes.CDLL(None, use_errno=True)
    if library.process_vm_readv(os.getppid(), ctypes.byref(here), 1, ctypes.byref(there), 1, 0) != 6:
        raise OSError(ctypes.get_errno(), "process_vm_readv")
    return None


def _signal_parent(place: str, port: int, address: int) -> object:
    return os.kill(os.getppid(), 0)


def _truncate(place: str, port: int, address: int) -> object:
    return os.truncate(Path(place, "long"), 0)


def _rename(place: str, port: int, address: int) -> object:
    return Path(place, "named").rename(Path(place, "renamed"))


def _unlink(place: str, port: int, address: int) -> object:
    return Path(place, "old").unlink()


def _write(place: str, port: int, address: int) -> object:
    return Path(place, "new").touch()


def _make_folder(place: str, port: int, address: int) -> object:
    return Path(place, "folder").mkdir()


def _link(place: str, port: int, address: int) -> object:
    return Path(place, "link").symlink_to("/")


def _open_to_all(place: str, port: int, address: int) -> object:
    return Path(place, "secret").chmod(0o666)


def _change_time(place: str, port: int, address: int) -> object:
    return os.utime(Path(place, "secret"), (0, 0))


def _run_shell(place: str, port: int, address: int) -> object:
    return subprocess.run(["/bin/sh", "-c", "exit 0"], check=True)


def _fork_300(place: str, port: int, address: int) -> object:
    for _ in range(300):
        if (child := os.fork()) == 0:
            os._exit(0)
        os.waitpid(child, 0)
    return None


def _daemon(place: str, port: int, address: int) -> object:
    if (child := os.fork()) == 0:
        os.setsid()
        if os.fork() == 0:
            time.sleep(1)
        os._exit(0)
    return os.waitpid(child, 0)


def _memory_file(place: str, port: int, address: int) -> object:
    return os.close(os.memfd_create("x"))


def _raise_limit(place: str, port: int, address: int) -> object:
    most = resource.getrlimit(resource.RLIMIT_CPU)[1]
    return resource.setrlimit(resource.RLIMIT_CPU, (most, most))


def _start_thread(place: str, port: int, address: int) -> object:
    thread = threading.Thread(target=len, args=("",))
    thread.start()
    return thread.join()


ATTEMPTS: dict[str, tuple[Callable[[str, int, int], object], frozenset[str]]] = {
    name: (attempt, frozenset(parts.split()))
    for name, attempt, parts in (
        ("connect by TCP", _tcp, "Landlock seccomp"),
        ("listen by TCP", _tcp_server, "Landlock seccomp"),
        ("send by UDP", _udp, "seccomp"),
        ("connect to an abstract socket", _unix, "Landlock seccomp"),
        ("read a file of the user", _read_file, "Landlock"),
        ("list a folder of the user", _list_folder, "Landlock"),
        ("read the environment of the parent", _parent_environment, "Landlock"),
        ("open the memory of the parent", _parent_memory, "Landlock"),
        ("read the memory of the parent by a call", _parent_memory_by_call, "Landlock seccomp"),
        ("signal the parent", _signal_parent, "Landlock seccomp"),
        ("truncate a file", _truncate, "Landlock seccomp"),
        ("rename a file", _rename, "Landlock seccomp"),
        ("remove a file", _unlink, "Landlock seccomp"),
        ("make a file", _write, "Landlock seccomp"),
        ("make a folder", _make_folder, "Landlock seccomp"),
        ("make a link", _link, "Landlock seccomp"),
        ("let all read and write a file", _open_to_all, "seccomp"),
        ("change the time of a file", _change_time, "seccomp"),
        ("run a shell", _run_shell, "Landlock seccomp"),
        ("start 300 processes", _fork_300, "seccomp"),
        ("leave a process behind", _daemon, "seccomp"),
        ("make a file in memory", _memory_file, "seccomp"),
        ("raise its own limit", _raise_limit, "seccomp"),
        ("start a thread", _start_thread, ""),
    )
}
"""Name to attempt, and to the parts of the lock that refuse it."""


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
