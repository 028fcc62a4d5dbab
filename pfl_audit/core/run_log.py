"""Log of a run in JSON lines: one line a stage, with counts, seconds and memory; nothing of a document is in it."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from pfl_audit.errors import is_interrupt
from pfl_audit.files import write_text
from pfl_audit.models.memory import peak_memory

FILE_NAME: Final = "log.jsonl"
Counts = dict[str, int]


class RunLog:
    """Stages of a run. Every flush writes all lines, atomically.

    Args:
        folder: Folder of the run.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / FILE_NAME
        self._lines: list[str] = []

    @contextlib.contextmanager
    def stage(self, name: str) -> Iterator[Counts]:
        """Time a stage.

        Args:
            name: Name of the stage, or of an installed attack.

        Yields:
            Counts, which the caller fills in.
        """
        began, counts = time.monotonic(), Counts()
        try:
            yield counts
        except BaseException as error:
            self._add(name, "cancelled" if is_interrupt(error) else "error", began, counts)
            raise
        self._add(name, "success", began, counts)

    def write(self) -> None:
        """Write what there is so far."""
        write_text(self._path, "".join(self._lines))

    def _add(self, name: str, status: str, began: float, counts: Mapping[str, int]) -> None:
        line = {
            "time": datetime.now(UTC).isoformat(timespec="seconds"),
            "stage": name,
            "status": status,
            "seconds": round(time.monotonic() - began, 3),
            "peak_memory_bytes": peak_memory(),
            "counts": dict(counts),
        }
        self._lines.append(json.dumps(line) + "\n")
