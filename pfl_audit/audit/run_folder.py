"""A run's folder: whose it is, and how far it has come."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from pfl_audit.errors import UsageError
from pfl_audit.files import read_json, sha256_json, write_json

FILE_NAME = "run.json"
Status = Literal["started", "success", "cancelled", "error"]


class RunFolder:
    """Claims a folder for one set of settings.

    Args:
        path: The folder.
        settings: What decides the results. The same settings may go on in the folder, others may not.

    Raises:
        UsageError: The folder belongs to an audit with other settings.
    """

    def __init__(self, path: Path, settings: dict[str, Any]) -> None:
        self.path = path
        self._settings = settings
        self._identity = sha256_json(settings)
        previous = read_json(path / FILE_NAME) if (path / FILE_NAME).is_file() else None
        if previous is not None and previous.get("identity") != self._identity:
            raise UsageError(f"{path} holds an audit with other settings", "Name another --out")
        self.resumed = previous is not None and previous.get("status") != "success"
        self.mark("started")

    def mark(self, status: Status, **facts: Any) -> None:
        """Write down how the run stands."""
        content = {"status": status, "identity": self._identity, "settings": self._settings, **facts}
        write_json(self.path / FILE_NAME, content)
