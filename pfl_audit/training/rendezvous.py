"""Where the processes of a launcher meet before they are connected."""

from __future__ import annotations

import os
import time
from datetime import timedelta
from typing import Final

from torch import distributed

from pfl_audit.errors import UsageError
from pfl_audit.launcher import ALONE, Launch

START: Final = timedelta(minutes=5)
"""How long a process waits for the others to start."""
LOOK: Final = 0.05
"""Seconds between two looks at whether they have."""


def meet(launch: Launch) -> distributed.PrefixStore:  # type: ignore[name-defined]
    """The launcher's store of keys and values, once all processes are there; waiting for them can be interrupted.

    Raises:
        UsageError: The launcher names none.
        RuntimeError, ValueError: It cannot be used, or a process does not come.
    """
    if missing := [name for name in ("MASTER_ADDR", "MASTER_PORT") if name not in os.environ]:
        raise UsageError(f"{missing[0]} is not set for {launch.size} processes", f"Start by torchrun. {ALONE}")
    serves = launch.leads and os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True"
    until = time.monotonic() + START.total_seconds()
    while True:
        try:
            server = distributed.TCPStore(  # type: ignore[attr-defined]
                os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), is_master=serves,
                wait_for_workers=False, timeout=timedelta(seconds=1),
            )  # fmt: skip
            break
        except distributed.DistNetworkError:
            if serves or time.monotonic() > until:
                raise
            time.sleep(LOOK)
    server.set_timeout(START)
    attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    store = distributed.PrefixStore(f"pfl-audit/{attempt}", server)  # type: ignore[attr-defined]
    store.set(f"here/{launch.rank}", "1")
    while not store.check([f"here/{rank}" for rank in range(launch.size)]):
        if time.monotonic() > until:
            raise RuntimeError("a process did not start")
        time.sleep(LOOK)
    return store
