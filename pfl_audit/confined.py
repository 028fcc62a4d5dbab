"""Functions that run in a child process under limits of memory and time, because their input may be hostile.

What goes to the child and what comes back is plain data: None, bool, int, float, str, bytes, list, tuple, dict.
"""

from __future__ import annotations

import io
import pickle
import signal
import subprocess
import sys
from multiprocessing.connection import Connection, Pipe
from types import TracebackType
from typing import Any, Literal

Kind = Literal["refused", "memory", "time", "ended"]


class RefusedError(Exception):
    """Raised by a confined function: its input is not what it must be, and the text says how."""


class ConfinedError(Exception):
    """A confined call came to no result.

    Args:
        kind: "refused" (the function raised RefusedError), "memory" or "time" (a limit was reached), or "ended"
            (the function raised something else, or the process died).
        text: What was refused, or the name of the exception; never its text, which may hold data.
    """

    def __init__(self, kind: Kind, text: str = "") -> None:
        super().__init__(text or kind)
        self.kind = kind
        self.text = text


class Confined:
    """A child process that answers calls of one function.

    The limits hold over the whole life of the child. It is gone with ``close`` or the end of the with block.

    Args:
        target: "module:function" of an importable module of ours.
        memory: Address space in bytes, the interpreter's own (some 100 MiB with numpy) included.
        seconds: CPU seconds of all calls together; a call may wait ten seconds more by the clock.
    """

    def __init__(self, target: str, *, memory: int, seconds: float) -> None:
        self._target, self._memory, self._seconds = target, memory, seconds
        ours, theirs = Pipe()
        with theirs:
            number = theirs.fileno()
            limits = [str(memory), str(int(seconds) + 1), str(number)]
            # -P: a module in the working folder, which may be hostile, must not shadow a real one.
            command = [sys.executable, "-P", "-m", "pfl_audit.confined_child", target, *limits]
            self._child = subprocess.Popen(  # noqa: S603 - our own interpreter and module
                command, pass_fds=[number], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )  # fmt: skip
        self._pipe: Connection[Any, Any] = ours

    def call(self, *arguments: object) -> Any:
        """Call the function in the child.

        Raises:
            ConfinedError: No result; after "memory", "time" and "ended" the child is gone.
        """
        try:
            self._pipe.send_bytes(pickle.dumps(arguments, pickle.HIGHEST_PROTOCOL))
            if not self._pipe.poll(2 * self._seconds + 10):
                self.close()
                raise ConfinedError("time")
            status, value = plain(self._pipe.recv_bytes())
        except (EOFError, OSError) as error:
            raise ConfinedError(self._why_it_died()) from error
        except pickle.UnpicklingError as error:
            self.close()
            raise ConfinedError("ended", "a result that is not plain data") from error
        if status == "done":
            return value
        if status != "refused":
            self.close()
        raise ConfinedError(status, str(value))

    def close(self) -> None:
        """End the child."""
        self._pipe.close()
        self._child.kill()
        self._child.wait()

    def __enter__(self) -> Confined:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _why_it_died(self) -> Kind:
        code = self._child.wait()
        return "time" if code in (-signal.SIGXCPU, -signal.SIGKILL) else "ended"


def call_confined(target: str, *arguments: object, memory: int, seconds: float) -> Any:
    """Call a function once in a child process of its own.

    Args:
        target: As in Confined.
        arguments: Plain data.
        memory: As in Confined.
        seconds: As in Confined.

    Raises:
        ConfinedError: No result.
    """
    with Confined(target, memory=memory, seconds=seconds) as child:
        return child.call(*arguments)


class _PlainUnpickler(pickle.Unpickler):
    def find_class(self, module_name: str, global_name: str) -> Any:
        raise pickle.UnpicklingError("not plain data")


def plain(data: bytes) -> Any:
    """Plain data from a pickle that holds nothing else.

    Raises:
        pickle.UnpicklingError: It asks for a global.
    """
    return _PlainUnpickler(io.BytesIO(data)).load()
