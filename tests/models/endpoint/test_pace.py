import random
import threading
import time
from datetime import UTC, datetime

import pytest

from pfl_audit.models.endpoint.pace import Pace, StoppedError, retry_after

NOW = datetime(2026, 11, 24, 12, 0, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("7", 7.0),
        ("0.5", 0.5),
        ("-3", 0.0),
        ("Tue, 24 Nov 2026 12:00:30 GMT", 30.0),
        ("Tue, 24 Nov 2026 11:00:00 GMT", 0.0),
        ("Tue, 24 Nov 2026 13:00:30 +0100", 30.0),
        ("Tue, 24 Nov 2026 12:00:30", 30.0),
        (None, None), ("", None), ("soon", None), ("nan", None), ("inf", None), ("99 Nov 2026", None),
        ("1" * 400, None),
    ],
)  # fmt: skip
def test_retry_after_is_seconds_or_a_date(header: str | None, seconds: float | None) -> None:
    assert retry_after(header, NOW) == seconds


def test_backoff_doubles_with_jitter_and_has_an_end() -> None:
    pace = Pace(None, 1.0, random.Random(0))
    for attempt in range(1, 12):
        assert 0.5 * min(60, 2 ** (attempt - 1)) <= pace.backoff(attempt) <= min(60, 2 ** (attempt - 1))
    assert pace.backoff(10**6) <= 60


def test_requests_start_no_more_often_than_the_rate_allows() -> None:
    pace, stop, starts = Pace(1200, 1.0, random.Random(0)), threading.Event(), []

    def work() -> None:
        for _ in range(3):
            pace.turn(stop)
            starts.append(time.monotonic())

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert max(starts) - min(starts) >= 8 * 0.05 - 0.005


def test_a_closed_pace_holds_everyone_and_ends_with_the_run() -> None:
    pace, stop = Pace(None, 1.0, random.Random(0)), threading.Event()
    pace.close(0.1)
    began = time.monotonic()
    pace.turn(stop)
    assert time.monotonic() - began >= 0.09
    pace.close(3600)
    threading.Timer(0.05, stop.set).start()
    with pytest.raises(StoppedError):
        pace.turn(stop)
