"""A run's folder: whose it is, and how far it has come."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from pfl_audit.audit.results import FILE_NAME as RESULTS
from pfl_audit.errors import AuditError, UsageError
from pfl_audit.files import read_json, sha256_json, write_json

FILE_NAME = "run.json"
Status = Literal["started", "success", "cancelled", "error"]


class RunFolder:
    """Claims a folder for one set of settings.

    A run that came to no results holds its folder for nobody: what it asked is in the store, by content.

    Args:
        path: The folder.
        settings: What decides the results. The same settings may go on in the folder; others take it
            over only where no results lie.

    Raises:
        UsageError: The folder belongs to an audit with other settings, or its name or a setting is
            nothing that can be written down.
        AuditError: Its run.json is not a run's.
    """

    def __init__(self, path: Path, settings: dict[str, Any]) -> None:
        self.path = path
        self._settings = settings
        try:
            self._identity = sha256_json(settings)
        except UnicodeEncodeError as error:
            raise UsageError("a setting is not valid UTF-8", "Rename the file or folder that it names") from error
        previous = _previous(path)
        own = previous.get("identity") == self._identity
        if previous and not own and (previous.get("status") == "success" or (path / RESULTS).exists()):
            raise UsageError(f"{path} holds an audit with other settings", "Name another --out")
        self.resumed = own and previous.get("status") != "success"
        self.mark("started")

    def mark(self, status: Status, **facts: Any) -> None:
        """Write down how the run stands."""
        content = {"status": status, "identity": self._identity, "settings": self._settings, **facts}
        write_json(self.path / FILE_NAME, content)


def _previous(folder: Path) -> dict[str, Any]:
    """What run.json says; empty where there is none."""
    path = folder / FILE_NAME
    try:
        there = path.is_file()
    except OSError as error:
        raise UsageError(f"{folder} cannot be a folder: {error.strerror}", "Name another --out") from error
    content = read_json(path) if there else {}
    if not isinstance(content, dict) or (there and "identity" not in content):
        raise AuditError(f"{path} is not a run's", "Delete it, or name another --out")
    return content
