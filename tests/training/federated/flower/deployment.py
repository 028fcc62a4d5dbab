"""A real SuperLink with SuperNodes on loopback, with TLS and authentication, and nothing left behind."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import signal
import socket
import ssl
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.training.federated.flower import app_server

_SUPERLINK, _LISTED = "superlink", ("ListRuns", "list-runs")
BIN = Path(sys.executable).parent  # not resolved: a venv's python is a link


PATIENCE = 240
"""Seconds without any sign of progress, after which a federation hangs: a loaded machine is slow, but goes on."""
_PAUSE = 1.0
"""Seconds between two looks at a run: each reads all of /proc, and takes 0.03 s of CPU time."""
DOUBT = 15
"""Seconds without any, after which the SuperLink is asked whether the run has failed: by a process with Flower."""


class Patience:
    """Runs out once what it looks at has stayed the same for a while.

    Args:
        look: Returns what changes with progress.
        seconds: How long it may stay the same.
    """

    def __init__(self, look: Callable[[], object], seconds: float) -> None:
        self._look, self._seconds = look, seconds
        self._seen, self._since = look(), time.monotonic()

    def lasts(self) -> bool:
        """Look again; whether there is reason to wait on."""
        if (seen := self._look()) != self._seen:
            self._seen, self._since = seen, time.monotonic()
        return time.monotonic() - self._since < self._seconds

    def wait(self, done: Callable[[], bool]) -> bool:
        """Wait until it is done or patience runs out; whether it is done."""
        while not done():
            if not self.lasts():
                return done()
            time.sleep(0.2)
        return True


class Deployment:
    """Processes of a federation; leaving the block ends them all.

    Their environment has no telemetry, no look for updates, no runtime installation and no ~/.flwr.

    Args:
        folder: For their logs and for Flower's home.
        work: Folders that the apps write to; a change there is progress, as is a line of a log or a new process.
        forks: Start apps in forks of one interpreter that has the libraries, in place of Flower's own programs.

    Attributes:
        home: Flower's.
        certificate: Certificate of the SuperLink, its own root.
        left: Processes that did not end by themselves, Flower's SuperExecs aside.
        peers: Whom the processes were seen talking to, in the kernel's hexadecimal.
    """

    def __init__(self, folder: Path, *work: Path, forks: bool = True) -> None:
        self.folder = folder
        self._forks = forks
        self.work = work
        self.home = folder / "flwr-home"
        self.home.mkdir(parents=True)
        self.left: list[int] = []
        self.peers: set[str] = set()
        self.certificate = folder / "server.pem"
        self._started: list[tuple[str, subprocess.Popen[bytes]]] = []
        self._refused: set[str] = set()
        self._port, *self._free = _free_ports(8)
        self._programs, self._apps = folder / "programs", f"pfl-audit-{secrets.token_hex(8)}"
        (self.home / "config.toml").write_text(
            f'[superlink]\ndefault = "here"\n\n[superlink.here]\naddress = "127.0.0.1:{self._port}"\n'
            f'root-certificates = "{self.certificate}"\n'
        )
        self._env = os.environ | {
            "FLWR_HOME": str(self.home),
            "FLWR_TELEMETRY_ENABLED": "0",
            "FLWR_DISABLE_UPDATE_CHECK": "1",
            "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
            # flower-superexec and the apps are looked up there
            "PATH": os.pathsep.join((*([str(self._programs)] if forks else []), str(BIN), os.environ["PATH"])),
            "FLWR_SUPEREXEC_TASK_POLL_INTERVAL": "0.2",
            "OMP_NUM_THREADS": "1",
            "NO_PROXY": "127.0.0.1,localhost",
        }

    def __enter__(self) -> Deployment:
        try:
            self._begin()
        except BaseException:
            self.__exit__()
            raise
        return self

    def _begin(self) -> None:
        if self._forks:
            app_server.write_programs(self._programs, self._apps)
            self._start("apps", "python", "-P", app_server.__file__, self._apps)
        key = self.folder / "server.key"
        _make(
            "openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "365",
            "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key),
            "-out", str(self.certificate),
        )  # fmt: skip
        self._start(
            _SUPERLINK, "flower-superlink", "--host", "127.0.0.1", "--port", str(self._port),
            "--ssl-ca-certfile", str(self.certificate), "--ssl-certfile", str(self.certificate),
            "--ssl-keyfile", str(key), "--enable-supernode-auth", "--disable-runtime-dependency-installation",
        )  # fmt: skip
        self._wait_for(f"https://127.0.0.1:{self._port}/health")

    def add_node(self, name: str, config: Mapping[str, Any], *, registered: bool = True) -> None:
        """A SuperNode with this configuration and a key pair of its own; one that is not registered is refused."""
        key = self.folder / f"{name}.key"
        _make("ssh-keygen", "-q", "-t", "ecdsa", "-b", "384", "-N", "", "-f", str(key))
        if registered:
            said = self._flwr("supernode", "register", f"{key}.pub", "here", "--format", "json")
            assert '"success": true' in said, said
        else:
            self._refused.add(name)
        words = " ".join(f"{key}={json.dumps(value)}" for key, value in config.items())
        self._start(
            name, "flower-supernode", "--superlink", f"127.0.0.1:{self._port}",
            "--root-certificates", str(self.certificate), "--auth-supernode-private-key", str(key),
            "--host", "127.0.0.1", "--port", str(self._free.pop()), "--node-config", words, "--max-retries", "5",
        )  # fmt: skip

    def run(self, app: Path) -> str:
        """Start a run, and return its id."""
        said = self._flwr("run", str(app), "here", "--format", "json")
        assert '"success": true' in said, said
        return str(json.loads(said)["run-id"])

    def wait(self, run: str, done: Callable[[], bool]) -> None:
        """Until it is done; stops where the run has failed, a process has died, or nothing advances."""
        patience, lively = Patience(self._signs, PATIENCE), Patience(self._signs, DOUBT)
        while not done():
            self._check()
            self.peers |= _peers(_descendants(self.pids))
            if not lively.lasts():  # a ServerApp that fails writes nothing
                state = self._flwr("list", "here", "--run-id", run, "--format", "json")
                assert "finished:failed" not in state, self.log(_SUPERLINK)
                assert "finished:stopped" not in state, self.log(_SUPERLINK)
                lively = Patience(self._signs, DOUBT)
            assert patience.lasts(), self.log(_SUPERLINK)
            time.sleep(_PAUSE)

    def _signs(self) -> object:
        """What changes as the federation goes on: its processes, the ends of their logs, the apps' files.

        A node that was refused tries again for ever, and our own questions are in the SuperLink's log: neither is one.
        """
        logs = (self.folder / f"{name}.log" for name, _ in self._started if name not in {*self._refused, _SUPERLINK})
        files = [*logs, *(path for folder in self.work for path in folder.rglob("*"))]
        asked = sum(not any(word in line for word in _LISTED) for line in _lines(self.folder / f"{_SUPERLINK}.log"))
        return sorted(_descendants(self.pids)), [(path, _changed(path)) for path in files], asked

    def kill(self, name: str) -> None:
        """SIGKILL a process and all below it."""
        self._started, gone = ([one for one in self._started if (one[0] == name) == wanted] for wanted in (False, True))
        for pid in _descendants([process.pid for _, process in gone]):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for _, process in gone:
            process.wait()

    @property
    def pids(self) -> list[int]:
        """Of what was started here."""
        return [process.pid for _, process in self._started]

    def log(self, name: str) -> str:
        """The end of a process's output."""
        return (self.folder / f"{name}.log").read_text()[-4000:]

    def server_log(self, run: str) -> str:
        """What the ServerApp of a run has logged."""
        return self._flwr("log", run, "here", "--show")

    def __exit__(self, *_: object) -> None:
        below = _descendants(self.pids)  # the SuperLink's SuperExec leads a session of its own

        def wait(done: Callable[[], bool], seconds: float) -> None:
            Patience(lambda: (list(map(_alive, below)), self._signs()), seconds).wait(done)

        for how, seconds in ((signal.SIGINT, 15.0), (signal.SIGKILL, 5.0)):
            for _, process in reversed(self._started):
                if process.poll() is None:
                    process.send_signal(how)
            wait(lambda: all(process.poll() is not None for _, process in self._started), seconds)
        for pid in filter(_is_superexec, below):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        wait(lambda: not any(map(_alive, below)), 15.0)
        self.left = [pid for pid in below if _alive(pid)]
        for pid in self.left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def _start(self, name: str, program: str, *arguments: str) -> None:
        with (self.folder / f"{name}.log").open("wb") as log:
            process = subprocess.Popen(
                [str(BIN / program), *arguments], env=self._env, stdout=log, stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL, start_new_session=True,
            )  # fmt: skip
        self._started.append((name, process))

    def _flwr(self, *arguments: str) -> str:
        command = [str(BIN / "flwr"), *arguments]
        ran = subprocess.run(command, env=self._env, capture_output=True, text=True, timeout=PATIENCE, check=False)
        return ran.stdout + ran.stderr

    def _check(self) -> None:
        for name, process in self._started:
            assert name in self._refused or process.poll() is None, self.log(name)

    def _wait_for(self, url: str) -> None:
        tls = urllib.request.HTTPSHandler(context=ssl.create_default_context(cafile=str(self.certificate)))
        ask = urllib.request.build_opener(urllib.request.ProxyHandler({}), tls)
        patience = Patience(self._signs, PATIENCE)
        while True:
            self._check()
            with contextlib.suppress(OSError), ask.open(url, timeout=10):
                return
            assert patience.lasts(), url
            time.sleep(0.1)


def _make(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True, timeout=PATIENCE)


def _peers(pids: Sequence[int]) -> set[str]:
    """Addresses, in hexadecimal, of the other ends of all TCP connections that these processes have."""
    inodes, found = set(), set()
    for pid in pids:
        for link in Path(f"/proc/{pid}/fd").glob("*"):
            with contextlib.suppress(OSError):
                inodes.add(link.readlink().name.removeprefix("socket:[").removesuffix("]"))
    for table in ("tcp", "tcp6"):
        for line in _lines(Path(f"/proc/net/{table}")):
            words = line.split()
            if words[9] in inodes:
                found.add(words[2].split(":")[0])
    return found


def _lines(path: Path) -> Iterator[str]:
    with contextlib.suppress(OSError):
        yield from path.read_text().splitlines()[1:]


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


def _changed(path: Path) -> tuple[int, int] | None:
    """Size and time of the last change; None where it is gone."""
    with contextlib.suppress(OSError):
        found = path.stat()
        return found.st_size, found.st_mtime_ns
    return None


def _is_superexec(pid: int) -> bool:
    """Whether it is Flower's SuperExec, which tries to reach its SuperNode for minutes after that has ended."""
    with contextlib.suppress(OSError):
        return b"flower-superexec" in Path(f"/proc/{pid}/cmdline").read_bytes()
    return False


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def _descendants(roots: Sequence[int]) -> list[int]:
    parents = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError, IndexError):
            parents[int(stat.parent.name)] = int(stat.read_text().rsplit(")", 1)[1].split()[1])
    found, todo = list(roots), list(roots)
    while todo:
        parent = todo.pop()
        below = [pid for pid, above in parents.items() if above == parent]
        found += below
        todo += below
    return found
