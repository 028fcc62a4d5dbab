import contextlib
import os
import signal
import struct
import time
import tracemalloc
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


def head(text: int, beside: int = 0, files: int = 0, places: int = 0) -> bytes:
    return struct.pack("<QQII", text, beside, files, places)


@pytest.mark.parametrize(
    ("answer", "end"),
    [
        (b"\x96" + struct.pack("<Q", 8 << 30), True),  # a pickle that makes room for 8 GB
        (head(8 << 30), False),
        (head(2, 8 << 30), False),
        (head(2, files=1) + b"[]", False),
        (head(3) + b"[1]", False),
        (head(8) + b'["x",{}]', False),
        (head(15, places=1) + b'["done",{"\0":1}', False),
        (head(2000) + b"[" * 2000, False),
        (head(4) + b"\xff\xff[]", False),
        (head(1 << 20), True),
    ],
)
def test_an_answer_of_a_child_that_was_taken_over_is_bounded(answer: bytes, end: bool) -> None:
    with Sandbox("tests.escapes:forge", **LIMITS) as child:
        tracemalloc.start()
        with pytest.raises(SandboxError) as caught:
            child.call(answer.hex(), end)
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert caught.value.kind == "ended"
    assert most < 16 << 20


def test_an_answer_of_too_many_values_is_not_parsed() -> None:
    with Sandbox("tests.escapes:forge_lists", **LIMITS) as child:
        tracemalloc.start()
        with pytest.raises(SandboxError, match="too large"):
            child.call(6_000_000)
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert most < 64 << 20


def test_an_answer_that_stops_in_its_middle_costs_the_time_of_a_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pfl_audit.sandbox._PATIENCE", 0.2)
    with Sandbox("tests.escapes:forge", **LIMITS) as child, pytest.raises(SandboxError) as caught:
        child.call(head(1 << 20).hex(), False)
    assert caught.value.kind == "time"


def test_the_limit_of_time_is_that_of_a_call() -> None:
    with Sandbox("builtins:eval", memory=1 << 30, seconds=1) as child:
        began = child.call("__import__('os').getpid()")
        for _ in range(4):
            child.call("sum(range(15_000_000)) and None")
        assert child.call("__import__('os').getpid()") == began


def test_a_call_that_fails_after_others_is_repeated_in_a_fresh_child(tmp_path: Path) -> None:
    code = "__import__('builtins').__dict__.setdefault('kept', []).append(bytearray(600 << 20)) or 1"
    with Sandbox("builtins:eval", **LIMITS) as child:
        assert child.call(code) == child.call(code) == 1
    with Sandbox("builtins:eval", keeps_state=True, **LIMITS) as child:
        assert child.call(code) == 1
        with pytest.raises(SandboxError):
            child.call(code)


def test_a_fork_has_a_child_of_its_own() -> None:
    with Sandbox("builtins:eval", **LIMITS) as child:
        before = child.call("__import__('os').getpid()")
        if (fork := os.fork()) == 0:
            with contextlib.suppress(BaseException):
                os._exit(int(child.call("__import__('os').getpid()") == before))
            os._exit(2)
        assert os.waitstatus_to_exitcode(os.waitpid(fork, 0)[1]) == 0
        assert child.call("__import__('os').getpid()") == before


def test_the_reason_of_a_refusal_has_nothing_that_a_terminal_obeys() -> None:
    with Sandbox("tests.escapes:refuse", **LIMITS) as child, pytest.raises(SandboxError) as caught:
        child.call("\x1b[2J\n::set-output name=x::" + "y" * 10_000)
    assert caught.value.text.startswith("?[2J?::set-output")
    assert len(caught.value.text) == 500


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
