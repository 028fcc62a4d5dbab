"""Sandbox: runs functions on untrusted input in a child process with limits of memory and CPU time.

Arguments and results are plain data: None, bool, int, float, str, bytes, list, tuple, dict.
"""

from __future__ import annotations

import io
import pickle
import signal
import subprocess
import sys
from multiprocessing.connection import Connection, Pipe
from typing import Any, Literal

Kind = Literal["refused", "memory", "time", "ended"]


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


class Sandbox:
    """A child process that executes calls of one function.

    The limits apply to the lifetime of the child, which ends with ``close`` or the with block.

    Args:
        target: "module:function" of an importable module.
        memory: Limit of the address space in bytes, including the interpreter (about 100 MiB with numpy).
        seconds: Limit of the CPU seconds of all calls together; a call also ends after twice that, plus ten seconds, of
            wall-clock time.
    """

    def __init__(self, target: str, *, memory: int, seconds: float) -> None:
        self._target, self._memory, self._seconds = target, memory, seconds
        ours, theirs = Pipe()
        with theirs:
            number = theirs.fileno()
            limits = [str(memory), str(int(seconds) + 1), str(number)]
            # -P: a module in the untrusted working folder must not shadow a real one.
            command = [sys.executable, "-P", "-m", "pfl_audit.sandbox_child", target, *limits]
            self._child = subprocess.Popen(  # noqa: S603 - our own interpreter and module
                command, pass_fds=[number], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )  # fmt: skip
        self._pipe: Connection[Any, Any] = ours

    def call(self, *arguments: object) -> Any:
        """Call the function in the child.

        Raises:
            SandboxError: The call failed; after "memory", "time" and "ended" the child has exited.
        """
        try:
            self._pipe.send_bytes(pickle.dumps(arguments, pickle.HIGHEST_PROTOCOL))
            if not self._pipe.poll(2 * self._seconds + 10):
                self.close()
                raise SandboxError("time")
            status, value = load_plain_data(self._pipe.recv_bytes())
        except (EOFError, OSError) as error:
            raise SandboxError(self._failure_kind()) from error
        except pickle.UnpicklingError as error:
            self.close()
            raise SandboxError("ended", "a result that is not plain data") from error
        if status == "done":
            return value
        if status != "refused":
            self.close()
        raise SandboxError(status, str(value))

    def close(self) -> None:
        """End the child."""
        self._pipe.close()
        self._child.kill()
        self._child.wait()

    def __enter__(self) -> Sandbox:
        return self

    def __exit__(self, *failure: object) -> None:
        self.close()

    def _failure_kind(self) -> Kind:
        code = self._child.wait()
        return "time" if code in (-signal.SIGXCPU, -signal.SIGKILL) else "ended"


def call_sandboxed(target: str, *arguments: object, memory: int, seconds: float) -> Any:
    """Call a function once in a new sandbox.

    Args:
        target: "module:function", as in Sandbox.
        arguments: Plain data.
        memory: Limit of the address space in bytes.
        seconds: Limit of the CPU time in seconds.

    Raises:
        SandboxError: The call failed.
    """
    with Sandbox(target, memory=memory, seconds=seconds) as child:
        return child.call(*arguments)


class _PlainUnpickler(pickle.Unpickler):
    def find_class(self, module_name: str, global_name: str) -> Any:
        raise pickle.UnpicklingError("not plain data")


def load_plain_data(data: bytes) -> Any:
    """Unpickle plain data.

    Raises:
        pickle.UnpicklingError: The pickle refers to a global.
    """
    return _PlainUnpickler(io.BytesIO(data)).load()
