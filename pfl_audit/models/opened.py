"""Facts of a model that was opened from a checkpoint folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pfl_audit.files import sha256_json


class OpenedCheckpoint:
    """Fingerprint and description of an opened checkpoint.

    Attributes:
        family: Name of the architecture.
        network: The network, on its device.
        folder: The checkpoint.
        fingerprint: SHA-256 of everything that determines what the model gives out.
        notes: Notes for the report, one sentence each.
    """

    family: str
    network: Any
    folder: Path
    fingerprint: str
    notes: list[str]

    def identify(
        self, folder: Path, files: Mapping[str, str], version: int, notes: Sequence[str], *settings: object
    ) -> None:
        """Set folder, fingerprint and notes.

        Args:
            files: File name to SHA-256 of what it was opened from.
            version: Version of the adapter.
            settings: What else determines the outputs, as JSON.
        """
        self.folder, self.notes = folder, list(notes)
        self.fingerprint = sha256_json([self.family, version, files, *settings])

    def describe(self) -> dict[str, Any]:
        """Facts for the report."""
        return {
            "family": self.family,
            "path": str(self.folder),
            "sha256": self.fingerprint,
            "parameters": sum(parameter.numel() for parameter in self.network.parameters()),
            "notes": list(self.notes),
        }
