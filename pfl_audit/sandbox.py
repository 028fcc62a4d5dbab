"""Sandbox: calls functions on untrusted input in a locked child process with limits of memory and CPU time.

The child reads the interpreter, its packages, the system's fonts and the files that it is handed, and nothing else. It
writes nothing, has no network, starts no process, and cannot reach another one (``sandbox_lock``). Where a kernel lacks
a part of the lock, a warning says so once, and the limits remain.
"""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import site
import socket
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Sequence
from math import inf
from pathlib import Path
from typing import Any, Final, Literal

from pfl_audit.sandbox_message import MessageError, receive, send

Kind = Literal["refused", "memory", "time", "ended"]
_CHILD: Final = "pfl_audit.sandbox_child"
LOCKS: Final = ("Landlock", "seccomp")
"""Parts of the lock."""
_LONGEST_REASON: Final = 500
_START: Final = 120.0
"""Wall-clock seconds in which a child starts, and imports the function."""
_PATIENCE: Final = 4
"""Wall-clock seconds per CPU second on a busy machine."""
_IDLE: Final = 0.5
"""CPU seconds that a child may take between two calls, such as for its garbage."""
_PASSED_ON: Final = ("PYTHONHOME", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")
"""Variables of the environment that the interpreter needs to find itself and its libraries."""
_ENVIRONMENT: Final = {
    "HOME": os.sep, "LANG": "C.UTF-8", "PYTHONDONTWRITEBYTECODE": "1", "HF_HUB_OFFLINE": "1",
    "OPENSSL_CONF": os.devnull, "ORT_DISABLE_TELEMETRY": "1", "TOKENIZERS_PARALLELISM": "false",
    "TORCHINDUCTOR_CACHE_DIR": os.sep,
} | dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "RAYON_NUM_THREADS"), "1")  # fmt: skip
"""Variables of each child, beside those that are passed on."""


class SandboxWarning(UserWarning):
    """The kernel lacks a part of the lock."""


class RefusedError(Exception):
    """Raised by a sandboxed function that refuses its input; the message has the reason."""


class SandboxError(Exception):
    """A sandboxed call failed.

    Args:
        kind: "refused" (the function raised RefusedError), "memory" or "time" (a limit was reached), or "ended"
            (the function raised another exception, or the process died).
        text: Reason of the refusal, or the type of the exception; never its message, which may contain data.
    """

    def __init__(self, kind: Kind, text: str = "") -> None:
        super().__init__(text or kind)
        self.kind = kind
        self.text = text

    def reason(
        self,
        ended: str = "it is damaged",
        memory: str = "it needs too much memory",
        time: str = "it takes too long to read",
    ) -> str:
        """The reason in words.

        Args:
            ended: Where the function failed, or the process died.
            memory: Where the memory was used up.
            time: Where the time was used up.
        """
        return {"memory": memory, "time": time, "ended": ended}.get(self.kind, self.text)


class Sandbox:
    """A child process that executes calls of one function, for all threads of this process, one call at a time.

    It starts with the first call, and again after a call that ended it, or that this process was forked. It ends with
    ``close``, the with block, or this process.

    Args:
        target: "module:function" of an importable module.
        memory: Limit of the address space in bytes, including the interpreter (about 100 MiB with numpy).
        seconds: Limit of the CPU seconds of a call; so much wall-clock time as a busy machine needs for it ends it too.
        readable: Folders and files that the child may open by name; others are handed to it as open files.
        first: Arguments of a call that goes before the first one in each child, such as what it opens.
        keeps_state: Whether calls depend on those before. If not, one that fails in a child that has served others,
            which may have used up its memory, is repeated in a fresh one.
    """

    def __init__(
        self,
        target: str,
        *,
        memory: int,
        seconds: float,
        readable: Sequence[Path] = (),
        first: Sequence[object] | None = None,
        keeps_state: bool = False,
    ) -> None:
        self._target, self._memory, self._seconds = target, memory, seconds
        self._readable, self._first, self._keeps_state = readable, first, keeps_state
        self._turn = threading.Lock()
        self._child: subprocess.Popen[bytes] | None = None
        self._channel: socket.socket | None = None
        self._owner, self._ended, self._used = os.getpid(), threading.Event(), inf

    def call(self, *arguments: object) -> Any:
        """Call the function in the child.

        Args:
            arguments: Plain data, and open files, which are read from their beginning.

        Raises:
            SandboxError: The call failed.
        """
        if self._owner != os.getpid() and self._turn.locked():  # by a thread that this process was forked without
            self._turn = threading.Lock()
        with self._turn:
            if self._ended.is_set():
                raise SandboxError("ended")
            served = self._child is not None and self._owner == os.getpid()
            if not served:
                self._start()
            try:
                return self._call(arguments)
            except SandboxError as error:
                lives = self._child is not None
                if lives or self._keeps_state or not served or self._ended.is_set() or error.kind == "time":
                    raise
            self._start()
            return self._call(arguments)

    def end(self) -> None:
        """End the child for good, also while another thread waits for it."""
        self._ended.set()
        self.close()

    def close(self) -> None:
        """End the child; the next call starts another one."""
        if self._channel is not None:
            self._channel.close()
        if self._child is not None and self._owner == os.getpid():
            self._child.kill()
            self._child.wait()
        elif self._child is not None:
            self._child.returncode = 0  # the child of the process that this one was forked from
        self._child = self._channel = None

    def __enter__(self) -> Sandbox:
        return self

    def __exit__(self, *failure: object) -> None:
        self.close()

    def __del__(self) -> None:
        """End the child."""
        with contextlib.suppress(Exception):  # the interpreter may be ending
            self.close()

    def _start(self) -> None:
        self.close()
        self._owner = os.getpid()
        self._channel, theirs = socket.socketpair()
        theirs.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)  # fewer turns for the pixels of a page
        with theirs:
            # -P: a module in the untrusted working folder must not shadow a real one.
            command = [sys.executable, "-P", "-m", _CHILD, str(theirs.fileno())]
            self._child = subprocess.Popen(  # noqa: S603 - our own interpreter and module
                command, pass_fds=[theirs.fileno()], env=_environment(), stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            )  # fmt: skip
        self._used = inf
        lacks = self._exchange([self._target, self._memory, [os.fsencode(path) for path in self._readable]], _START)
        self._used = self._clock()
        if absent := [part for part in LOCKS if part in lacks]:
            warnings.warn(
                f"the kernel has no {' and no '.join(absent)}: foreign files are read with limits of memory and time, "
                "and without that lock",
                SandboxWarning,
                stacklevel=4,
            )
        if self._first is not None:
            try:
                self._call(self._first)
            except SandboxError:
                self.close()  # no later call may find it without what goes first
                raise

    def _call(self, arguments: Sequence[object]) -> Any:
        if self._child is not None and hasattr(resource, "prlimit"):
            self._grant(self._child.pid)
        answer = self._exchange(arguments, _PATIENCE * (self._seconds + 5))
        self._used = self._clock()
        return answer

    def _clock(self) -> float:
        """CPU seconds of the child; infinite where it is gone."""
        try:
            return time.clock_gettime((~self._child.pid << 3) | 2) if self._child is not None else inf
        except OSError:
            return inf

    def _grant(self, child: int) -> None:
        """Set the limit of time from here, and again for each call: the child cannot change its own limits.

        Raises:
            SandboxError: It has ended, or has worked between two calls, as code does that ignores a limit.
        """
        used, most = self._clock(), resource.getrlimit(resource.RLIMIT_CPU)[1]
        if used > self._used + _IDLE:
            self.close()
            raise SandboxError("ended")
        wanted = int(used + self._seconds) + 1
        with contextlib.suppress(ProcessLookupError):  # the exchange finds that it has ended
            resource.prlimit(child, resource.RLIMIT_CPU, (wanted if most < 0 else min(wanted, most), most))

    def _exchange(self, question: object, seconds: float) -> Any:
        """Send a message to the child, and return what it answers within a wall-clock time."""
        child, channel = self._child, self._channel
        if child is None or channel is None:
            raise SandboxError("ended")
        try:
            channel.settimeout(seconds)
            send(channel, question)
            answer = receive(channel, seconds)
        except TimeoutError as error:
            self.close()
            raise SandboxError("time") from error
        except (EOFError, OSError) as error:
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(timeout=1)
            code = child.returncode
            self.close()
            raise SandboxError("time" if code in (-signal.SIGXCPU, -signal.SIGKILL) else "ended") from error
        except MessageError as error:
            self.close()
            raise SandboxError("ended", str(error)) from error
        except BaseException:  # an answer that is still to come must not be taken for that of another question
            self.close()
            raise
        status, value = answer if isinstance(answer, list) and len(answer) == 2 else ("", "")
        kind: Kind = "refused" if status == "refused" else "memory" if status == "memory" else "ended"
        if status == "done":
            return value
        if status not in ("refused", "ended"):
            self.close()
        raise SandboxError(kind, _printable(value if isinstance(value, str) else ""))


def call_sandboxed(target: str, *arguments: object, memory: int, seconds: float, readable: Sequence[Path] = ()) -> Any:
    """Call a function once in a new sandbox.

    Args:
        target: "module:function", as in Sandbox.
        arguments: Plain data, and open files.
        memory: Limit of the address space in bytes.
        seconds: Limit of the CPU time in seconds.
        readable: Folders and files that the child may open by name.

    Raises:
        SandboxError: The call failed.
    """
    with Sandbox(target, memory=memory, seconds=seconds, readable=readable) as child:
        return child.call(*arguments)


def _environment() -> dict[str, str]:
    """The environment of a child, which has nothing else of that of this process."""
    found = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    given = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    packages = [str(Path(__file__).parents[1]), *filter(os.path.isabs, given)]  # this version of ours, and no "."
    return _ENVIRONMENT | found | {"PYTHONUSERBASE": site.getuserbase(), "PYTHONPATH": os.pathsep.join(packages)}


def _printable(text: str) -> str:
    """A text from a child that may have been taken over: one line, and nothing that a terminal obeys."""
    return "".join(letter if letter.isprintable() else "?" for letter in text[:_LONGEST_REASON])
