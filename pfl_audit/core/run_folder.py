"""A run's folder: whose it is, how far it has come, and its log of stages, in which nothing of a document is."""

from __future__ import annotations

import contextlib
import json
import shutil
import time
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Literal

from pydantic import JsonValue

from pfl_audit.core.evidence import PUBLIC
from pfl_audit.core.redaction import visible
from pfl_audit.core.results import FILE_NAME as RESULTS
from pfl_audit.errors import AuditError, StorageError, UsageError, is_interrupt
from pfl_audit.files import sha256_json, write_json, write_text
from pfl_audit.inputs import read_json
from pfl_audit.models.memory import peak_memory
from pfl_audit.out_folder import OutFolder

FILE_NAME = "run.json"
_LONGEST = 2_000
Status = Literal["started", "success", "cancelled", "error"]
LOG: Final = "log.jsonl"
Counts = dict[str, int]


class RunFolder:
    """Claims a folder for one set of settings, and locks it until it is closed.

    A run that came to no results does not reserve its folder: what it asked is in the store, by content.
    As a context it marks how the run failed, and removes a run.json of its own where nothing was asked.

    Args:
        path: The folder.
        settings: What decides the results. The same settings may go on in the folder; others take it
            over only where no results lie.

    Attributes:
        asked: Whether something came of the run that is worth going on from.

    Raises:
        UsageError: The folder belongs to an audit with other settings or to others, or its name or a setting is
            nothing that can be written down.
        AuditError: Its run.json is not a run's, or another process writes into it.
    """

    def __init__(self, path: Path, settings: Mapping[str, object]) -> None:
        self.path = path
        self.asked = False
        self._settings = settings
        try:
            self._identity = sha256_json(settings)
        except UnicodeEncodeError as error:
            raise UsageError("a setting is not valid UTF-8", "Rename the file or folder that it names") from error
        self._folder = OutFolder(path, "audit", private=True)
        try:
            previous = _previous(path)
            own = previous.get("identity") == self._identity
            if previous and not own and (previous.get("status") == "success" or (path / RESULTS).exists()):
                raise UsageError(f"{path} holds an audit with other settings", "Name another --out")
            if not own:  # pictures of a run that showed pages would be taken for masked ones
                shutil.rmtree(path / PUBLIC, ignore_errors=True)
            self.resumed = own and previous.get("status") != "success"
            self._new = not previous
            self.mark("started")
        except BaseException:
            self.close()
            raise

    def mark(self, status: Status, **facts: object) -> None:
        """Write down the state of the run."""
        content = {"status": status, "identity": self._identity, "settings": self._settings, **facts}
        write_json(self.path / FILE_NAME, content)

    def close(self) -> None:
        """Let go of the folder."""
        self._folder.close()

    def __enter__(self) -> RunFolder:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        with contextlib.suppress(StorageError):  # the disk is full, which the error may be about
            if is_interrupt(error):
                self.mark("cancelled")
            elif error is not None and self._new and not self.asked:
                (self.path / FILE_NAME).unlink(missing_ok=True)
            elif error is not None:
                reason = str(error) if isinstance(error, AuditError) else type(error).__name__
                self.mark("error", reason=visible(reason, _LONGEST))  # a name in it may be no valid UTF-8
        self.close()


def _previous(folder: Path) -> dict[str, JsonValue]:
    """What run.json says; empty where there is none."""
    path = folder / FILE_NAME
    there = path.exists()
    content = read_json(path) if there else {}
    if not isinstance(content, dict) or (there and "identity" not in content):
        raise AuditError(f"{path} is not a run's", "Delete it, or name another --out")
    return content


class RunLog:
    """Stages of a run. Every flush writes all lines, atomically.

    Args:
        folder: Folder of the run.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / LOG
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
