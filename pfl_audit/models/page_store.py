"""Page features on disk: float16, a row a page, so that memory does not grow with the number of pages."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from pfl_audit.errors import AuditError, another_run
from pfl_audit.files import atomic_write, cannot_write
from pfl_audit.inputs import is_there, open_input
from pfl_audit.models.tensor_record import damaged

PAGES_FILE = "page-features.float16"
_HEADER = 4096


class PageStore:
    """A file to which blocks of rows are appended; a killed run loses at most the block that it was writing.

    Args:
        path: File, readable by its owner only.
        run: Digest of what decides the features, so that no other run continues from the file.

    Raises:
        UsageError: The file belongs to a run with other data or settings.
        AuditError: It is damaged.
    """

    def __init__(self, path: Path, run: str) -> None:
        self._path, self._run, self._shape = path, run, tuple[int, ...]()
        self.rows = 0
        if is_there(path):
            self._open()

    def _open(self) -> None:
        with open_input(self._path, limit=None) as file:
            header, size = file.read(_HEADER), os.fstat(file.fileno()).st_size
        try:
            record = json.loads(header)
            self._shape = tuple(map(int, record["shape"]))
            run, row_bytes = str(record["settings"]), self._row_bytes
            if len(header) < _HEADER or row_bytes <= 0:
                raise ValueError("it holds no rows")
        except (KeyError, TypeError, ValueError, RecursionError) as error:
            raise damaged(self._path) from error
        if run != self._run:
            raise another_run(self._path.parent)
        self.rows = (size - _HEADER) // row_bytes

    @property
    def _row_bytes(self) -> int:
        return 2 * math.prod(self._shape)

    def append(self, rows: Tensor) -> None:
        """Write the next rows, float (rows, ...).

        Raises:
            StorageError: The disk is full, or the folder cannot be written.
            AuditError: A number is not finite as float16.
        """
        half = rows.to(torch.float16)
        if not bool(half.isfinite().all()):
            raise AuditError("features of a page are not finite, or beyond 65,504", "Check the visual encoder")
        content = half.contiguous().numpy().tobytes()
        if not self._shape:
            self._shape = tuple(rows.shape[1:])
            header = json.dumps({"settings": self._run, "shape": self._shape}).encode().ljust(_HEADER)
            with atomic_write(self._path) as file:
                file.write(header + content)
        else:
            try:
                with self._path.open("r+b") as file:
                    file.truncate(_HEADER + self.rows * self._row_bytes)  # what of a block a kill left
                    file.seek(0, os.SEEK_END)
                    file.write(content)
                    file.flush()
                    os.fsync(file.fileno())
            except OSError as error:
                raise cannot_write(self._path, error) from error
        self.rows += len(rows)

    def __getitem__(self, rows: Sequence[int]) -> Tensor:
        """Some rows, float32 (rows, ...); the file is mapped for the call alone, so that its pages are not counted."""
        held = np.memmap(self._path, np.float16, "r", _HEADER, (self.rows, *self._shape))
        return torch.from_numpy(held[list(rows)].astype(np.float32))
