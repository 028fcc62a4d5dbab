"""What shows a finding: kept whole in a private folder, drawn in a masked report."""

from __future__ import annotations

import contextlib
import io
from pathlib import Path

from PIL import Image

from pfl_audit.files import atomic_write, write_json

PRIVATE = "private"
PUBLIC = "evidence"


class EvidenceBox:
    """Keeps what a run recovered.

    Args:
        folder: Of the run.
        reveal: Show pages as they are.
    """

    def __init__(self, folder: Path, *, reveal: bool = False) -> None:
        self._folder = folder
        self._reveal = reveal

    def keep_page(self, name: str, page: Image.Image) -> None:
        """Keep a page whole in the private folder, readable by the owner only.

        A page that JPEG cannot hold is left out: a picture less is no reason to lose an audit.
        """
        with contextlib.suppress(_UnencodableError):
            _save(page, self._folder / PRIVATE / f"{name}.jpg")

    def keep_json(self, name: str, value: object) -> None:
        """Keep what was recovered in the private folder, readable by the owner only."""
        write_json(self._folder / PRIVATE / f"{name}.json", value)

    def keep_text(self, name: str, text: str) -> None:
        """Keep a text in the private folder, readable by the owner only."""
        with atomic_write(self._folder / PRIVATE / f"{name}.txt") as file:
            file.write(text.encode(errors="backslashreplace"))

    def show(self, name: str, seen: Image.Image, masked: Image.Image) -> str:
        """Make a picture for the report.

        Args:
            name: Of its file.
            seen: What is shown to those who asked for it.
            masked: The picture that is shown without --reveal; it uses nothing of a private page.

        Returns:
            Its path relative to the run's folder.
        """
        path = Path(PUBLIC) / f"{name}.jpg"
        _save(seen if self._reveal else masked, self._folder / path)
        return str(path)


class _UnencodableError(Exception):
    """A picture that JPEG cannot hold."""


def _save(picture: Image.Image, path: Path) -> None:
    data = io.BytesIO()
    try:
        picture.convert("RGB").save(data, "JPEG", quality=70)
    except (OSError, ValueError) as error:
        raise _UnencodableError from error
    with atomic_write(path) as file:
        file.write(data.getvalue())
