"""Programs that forks of a running interpreter take over: it has the libraries imported, which takes long.

``write_program`` writes a program that hands its arguments, folder, environment and outputs to a server. The server's
``next_program`` returns in a fork, which goes on as the program: a process of its own, as that would be.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
from pathlib import Path

_HANDS_OVER = """\
#!{python} -IS
import json, os, signal, socket, sys
server = socket.socket(socket.AF_UNIX)
server.connect(chr(0) + {name!r})
words = json.dumps([os.path.basename(sys.argv[0]), {waits}, os.getcwd(), dict(os.environ), sys.argv[1:]])
socket.send_fds(server, [words.encode()], [0, 1, 2])
server.shutdown(socket.SHUT_WR)
"""
_WAITS = """\
answers = server.makefile()
fork = int(answers.readline())
for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, lambda number, frame: os.kill(fork, number))
sys.exit(int(answers.readline() or 1))
"""


def write_program(path: Path, name: str, *, waits: bool = True) -> None:
    """Write a program that hands over to the server of a name.

    Args:
        path: Its last part is the program's name.
        name: Name of the server's abstract socket.
        waits: Whether the program passes signals on and ends as its fork does; else it ends at once.
    """
    text = _HANDS_OVER.format(python=sys.executable, name=name, waits=waits)
    path.write_text(text + _WAITS if waits else text)
    path.chmod(0o700)


def listen(name: str) -> socket.socket:
    """The socket of a server."""
    server = socket.socket(socket.AF_UNIX)
    server.bind(f"\0{name}")
    server.listen()
    return server


def listens(name: str) -> bool:
    """Whether there is a server of this name."""
    return any(line.endswith(f"@{name}") for line in Path("/proc/net/unix").read_text().splitlines())


def next_program(server: socket.socket) -> list[str]:
    """Fork for every program that hands over; returns in the forks alone: the program's name and its arguments."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the server waits for none
    while True:
        asking, _ = server.accept()
        text, handed, _, _ = socket.recv_fds(asking, 1 << 16, 3)
        while more := asking.recv(1 << 16):
            text += more
        if os.fork() == 0:
            break
        asking.close()
        for number in handed:
            os.close(number)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    server.close()
    name, waits, folder, environment, arguments = json.loads(text)
    if waits:
        _fork_and_wait(asking)
    asking.close()
    for number, other in enumerate(handed):
        os.dup2(other, number)
        os.close(other)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    return [name, *arguments]


def _fork_and_wait(asking: socket.socket) -> None:
    """Go on in a fork; tell the program its number and, at last, how it ended."""
    if fork := os.fork():
        asking.sendall(f"{fork}\n".encode())
        _, status = os.waitpid(fork, 0)
        asking.sendall(f"{os.waitstatus_to_exitcode(status)}\n".encode())
        os._exit(0)
