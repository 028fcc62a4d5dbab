"""Pictures of a report as data addresses: as images they can neither run scripts nor be styled from outside."""

from __future__ import annotations

import base64
from pathlib import Path

from markupsafe import Markup

from pfl_audit.core.evidence import PUBLIC
from pfl_audit.documents.image_file import MAX_PIXELS
from pfl_audit.documents.images import size_of
from pfl_audit.errors import AuditError
from pfl_audit.inputs import is_regular, read_bytes

_KINDS = {".jpg": "JPEG", ".png": "PNG"}
_BEGINNINGS = {"JPEG": b"\xff\xd8\xff", "PNG": b"\x89PNG"}
_LARGEST = 4 << 20
_ALL = 64 << 20
"""Bytes of all pictures of a report."""


class Pictures:
    """The pictures of one report, up to a limit altogether; None for what is beyond, or is no picture.

    Args:
        folder: Folder of the run. Only pictures in its ``evidence`` folder are read.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._left = _ALL

    def evidence(self, name: str) -> Markup | None:
        """A picture of the run."""
        kind = _KINDS.get(Path(name).suffix)
        data = self._read(name) if kind and self._left > 0 else None
        if kind is None or data is None or not _is_picture(data, kind):
            return None
        self._left -= len(data)
        return _address(f"image/{kind.lower()}", data)

    def _read(self, name: str) -> bytes | None:
        try:
            path = (self._folder / name).resolve()
            if not path.is_relative_to(self._folder.resolve() / PUBLIC) or not is_regular(path):
                return None
            return read_bytes(path, limit=_LARGEST)
        except (ValueError, OSError, RuntimeError, AuditError):  # no name of a file, a loop of links, too large
            return None


def _is_picture(data: bytes, kind: str) -> bool:
    """Whether the header is that of a picture of this kind, which a browser can afford to show."""
    size = size_of(data) if data.startswith(_BEGINNINGS[kind]) else None
    return size is not None and size[0] * size[1] <= MAX_PIXELS


def _address(kind: str, data: bytes) -> Markup:
    return Markup(f"data:{kind};base64,{base64.b64encode(data).decode()}")  # noqa: S704 - base64 needs no escaping
