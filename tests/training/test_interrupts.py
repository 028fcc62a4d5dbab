"""An interrupt waits until a step or a report is whole."""

import os
import signal
import threading

import pytest

from pfl_audit.training.interrupts import held_interrupts
from tests.training.killed import obeyed


def interrupted(times: int, error: type[Exception] | None = None) -> list[str]:
    """The end of a block that is interrupted, and of the commands around it."""
    ends = []
    with obeyed(signal.SIGTERM):
        try:
            with held_interrupts() as waits:
                for number in range(times):
                    os.kill(os.getpid(), signal.SIGTERM)
                    assert waits() or number
                if error:
                    raise error
                ends.append("whole block")
        except BaseException as end:
            ends.append(type(end).__name__)
        with pytest.raises(KeyboardInterrupt):  # the handler of before is back
            os.kill(os.getpid(), signal.SIGTERM)
    return ends


def test_an_interrupt_waits_for_the_end_of_the_block() -> None:
    assert interrupted(0) == ["whole block"]
    assert interrupted(1) == ["whole block", "KeyboardInterrupt"]


def test_a_second_interrupt_is_raised_at_once() -> None:
    assert interrupted(2) == ["KeyboardInterrupt"]


def test_an_error_of_the_block_goes_before_an_interrupt() -> None:
    assert interrupted(1, ZeroDivisionError) == ["ZeroDivisionError"]


def test_what_nohup_ignores_stays_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with held_interrupts() as waits:
            os.kill(os.getpid(), signal.SIGHUP)
            assert not waits()
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_another_thread_sets_no_handler() -> None:
    failures: list[BaseException] = []

    def work() -> None:
        try:
            with held_interrupts() as waits:
                assert not waits()
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert not failures
