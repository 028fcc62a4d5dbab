"""Starts Flower's apps in forks of one interpreter that has the libraries imported: imports take longer than rounds.

SuperExec starts a program for every message. ``write_programs`` makes programs of the same names, which hand their
arguments and outputs to the server and end. A fork is a process of its own, as the program would be.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
from importlib import import_module
from pathlib import Path

_PROGRAMS = {
    "flwr-clientapp": ("flwr.supernode.cli", "flwr_clientapp"),
    "flwr-serverapp": ("flwr.superlink.cli", "flwr_serverapp"),
}
_LIBRARIES = (
    *(module for module, _ in _PROGRAMS.values()),
    "pfl_audit.training.federated.flower.client_app", "pfl_audit.training.federated.flower.server_app",
    "pfl_audit.training.federated.flower.client", "pfl_audit.models.vt5.training",
)  # fmt: skip
_HANDS_OVER = """\
#!{python} -IS
import json, os, socket, sys
server = socket.socket(socket.AF_UNIX)
server.connect(chr(0) + {name!r})
words = json.dumps([os.path.basename(sys.argv[0]), os.getcwd(), *sys.argv[1:]])
socket.send_fds(server, [words.encode()], [1, 2])
"""


def write_programs(folder: Path, name: str) -> None:
    """Write the programs that hand over to the server of a name, which is that of an abstract socket."""
    folder.mkdir()
    for program in _PROGRAMS:
        (folder / program).write_text(_HANDS_OVER.format(python=sys.executable, name=name))
        (folder / program).chmod(0o700)


def _become(name: str, cwd: str, *arguments: str) -> None:
    os.chdir(cwd)
    sys.argv = [name, *arguments]
    module, function = _PROGRAMS[name]
    getattr(import_module(module), function)()


def _serve(name: str) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(f"\0{name}")
        server.listen()  # what asks during the imports waits
        for library in _LIBRARIES:
            import_module(library)
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # no process waits for an app
        while True:
            asking, _ = server.accept()
            words, handed, _, _ = socket.recv_fds(asking, 1 << 16, 2)
            asking.close()
            if os.fork() == 0:
                break
            for number in handed:
                os.close(number)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    for number, other in enumerate(handed, start=1):
        os.dup2(other, number)
    _become(*json.loads(words))


if __name__ == "__main__":
    _serve(sys.argv[1])
