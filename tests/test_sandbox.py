import os
import signal
import time
from pathlib import Path

import pytest

from pfl_audit.sandbox import Sandbox, SandboxError, call_sandboxed

LIMITS = {"memory": 1 << 30, "seconds": 2}


def test_plain_data_goes_there_and_back() -> None:
    with Sandbox("os.path:join", **LIMITS) as child:
        assert child.call("a", "b") == "a/b"
        assert child.call("c", "d") == "c/d"


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("target", "argument", "kind"),
    [
        ("builtins:bytearray", 1 << 33, "memory"),
        ("builtins:eval", "sum(range(10**11))", "time"),
        ("builtins:eval", "(1).__class__.__base__", "ended"),  # a class is not plain data
        ("sys:exit", 3, "ended"),
        ("os:abort", None, "ended"),
        ("json:loads", "[" * 100_000, "refused"),
    ],
)
def test_a_call_that_comes_to_nothing_says_why(target: str, argument: object, kind: str) -> None:
    with pytest.raises(SandboxError) as caught:
        call_sandboxed(target, *(() if argument is None else (argument,)), **LIMITS)
    assert caught.value.kind == kind


def test_the_text_of_an_exception_stays_in_the_child() -> None:
    with pytest.raises(SandboxError) as caught:
        call_sandboxed("builtins:int", "SecretName GmbH", **LIMITS)
    assert caught.value.text == "ValueError"


def test_a_child_that_is_killed_is_an_error_and_no_wait() -> None:
    with Sandbox("time:sleep", **LIMITS) as child:
        child.call(0)
        os.kill(child._child.pid, signal.SIGKILL)
        began = time.monotonic()
        with pytest.raises(SandboxError):
            child.call(0)
        assert time.monotonic() - began < 5


def test_a_refused_call_leaves_the_child_usable() -> None:
    with Sandbox("json:loads", **LIMITS) as child:
        with pytest.raises(SandboxError):
            child.call("[" * 100_000)
        assert child.call("[1]") == [1]


def test_a_child_writes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.touch()
    with pytest.raises(SandboxError):
        call_sandboxed(
            "builtins:eval", f"__import__('os').write(__import__('os').open({str(path)!r}, 1), b'text')", **LIMITS
        )
    assert not path.read_bytes()
