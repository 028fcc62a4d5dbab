"""When requests may start: requests a minute, backoff, and the waiting time that an endpoint asks for."""

from __future__ import annotations

import math
import random
import threading
import time
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Final

LONGEST_WAIT: Final = 600.0
"""Seconds that an endpoint may ask to wait; beyond, the run ends and can be resumed."""
_LONGEST_BACKOFF: Final = 60.0


class StoppedError(Exception):
    """The run ends while a request waits for its turn."""


def retry_after(text: str | None, now: datetime | None = None) -> float | None:
    """Seconds to wait by a ``Retry-After`` header (RFC 9110, section 10.2.3).

    Args:
        text: Seconds or a date, or None.
        now: Time that a date is held against; the clock's if None.

    Returns:
        Seconds, at least 0; None for a missing header or one that cannot be read.
    """
    if text is None:
        return None
    try:
        seconds = float(text)
    except ValueError:
        try:
            date = parsedate_to_datetime(text)
        except (ValueError, TypeError, OverflowError, IndexError):
            return None
        date = date if date.tzinfo else date.replace(tzinfo=UTC)
        seconds = (date - (now or datetime.now(UTC))).total_seconds()
    return max(0.0, seconds) if math.isfinite(seconds) else None


class Pace:
    """Turns of all requests of a run. Safe for several threads.

    Args:
        rpm: Requests a minute at most, or None.
        base: Seconds of the first backoff; each further one is twice as long, with jitter.
        rng: Generator of the jitter.
    """

    def __init__(self, rpm: float | None, base: float, rng: random.Random) -> None:
        self._interval = 60.0 / rpm if rpm else 0.0
        self._base, self._rng = base, rng
        self._next = self._closed_until = 0.0
        self._lock = threading.Lock()

    def turn(self, stop: threading.Event) -> None:
        """Wait for the turn of a request.

        Raises:
            StoppedError: The run ends meanwhile.
        """
        while True:
            with self._lock:
                now = time.monotonic()
                start = max(self._next, self._closed_until)
                if now >= start:
                    self._next = now + self._interval
                    break
            self.rest(start - now, stop)
        if stop.is_set():
            raise StoppedError

    def close(self, seconds: float) -> None:
        """Start no request for some time: the endpoint has asked for it."""
        with self._lock:
            self._closed_until = max(self._closed_until, time.monotonic() + seconds)

    def backoff(self, attempt: int) -> float:
        """Seconds before the attempt after ``attempt``."""
        with self._lock:
            jitter = self._rng.uniform(0.5, 1.0)
        return min(_LONGEST_BACKOFF, self._base * 2.0 ** min(attempt - 1, 30)) * jitter

    def rest(self, seconds: float, stop: threading.Event) -> None:
        """Wait.

        Raises:
            StoppedError: The run ends meanwhile.
        """
        if stop.wait(seconds):
            raise StoppedError
