"""Interrupts that wait until what is done can be kept."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def held_interrupts() -> Iterator[Callable[[], bool]]:
    """A context in which an interrupt waits for the end of the block; a second one is raised where it comes.

    Yields:
        A function that returns True while an interrupt waits.

    Raises:
        KeyboardInterrupt: One came; at the end of the block.
    """
    waits = over = False
    signals = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    main = threading.current_thread() is threading.main_thread()  # no other thread may set handlers, or gets signals
    before = {number: found for number in signals if main and callable(found := signal.getsignal(number))}

    def hold(number: int, frame: FrameType | None) -> None:
        nonlocal waits
        try:
            before[signal.Signals(number)](number, frame)
        except KeyboardInterrupt:
            if waits or over:
                raise
            waits = True

    for number in before:
        signal.signal(number, hold)
    try:
        yield lambda: waits
    finally:
        over = True  # what comes while the handlers are put back is raised at once
        for number, found in before.items():
            signal.signal(number, found)
    if waits:
        raise KeyboardInterrupt
