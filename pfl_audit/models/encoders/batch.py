"""Windows side by side, as the network takes them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from pfl_audit.models.encoders.labels import IGNORED, NOWHERE, WindowLabels
from pfl_audit.models.form_protocol import TokenIds, Window


@dataclass(frozen=True, eq=False)
class FormBatch:
    """b windows, padded on the right to n tokens.

    Attributes:
        ids: int64 (b, n).
        boxes: float32 (b, n, 4), shares of the page.
        mask: bool (b, n): which tokens are there.
        classes: int64 (b, n): class of each token, or IGNORED. None where the task has no classes.
        pointers: int64 (b, n): column of the token pointed to, n for nowhere, or IGNORED. None where none points.
        targets: bool (b, n): tokens that may be pointed to; None for all that are there.
        pixels: float32 (pages, 3, side, side): page images; or None.
        features: float32 (pages, c, h, w): their feature maps, where they were computed before; or None.
        page: int64 (b,): which of the pages a window stands on; zeros where there are none.
    """

    ids: Tensor
    boxes: Tensor
    mask: Tensor
    page: Tensor
    classes: Tensor | None = None
    pointers: Tensor | None = None
    targets: Tensor | None = None
    pixels: Tensor | None = None
    features: Tensor | None = None

    def __len__(self) -> int:
        return len(self.ids)

    def to(self, device: str | torch.device) -> FormBatch:
        """The same on another device."""
        moved = {name: value.to(device) for name, value in vars(self).items() if isinstance(value, Tensor)}
        return replace(self, **moved)


def collate(
    windows: Sequence[Window],
    *,
    ids: Sequence[TokenIds] | None = None,
    labels: Sequence[WindowLabels] | None = None,
    pixels: Tensor | None = None,
    features: Tensor | None = None,
    page: Sequence[int] | None = None,
    pad: int = 0,
) -> FormBatch:
    """Pad windows to the longest.

    Args:
        windows: At least one.
        ids: To read in place of the windows' own, such as masked ones.
        labels: One a window, all of one task.
        pad: The padding token.
    """
    longest = max(len(window.ids) for window in windows)
    rows = ids if ids is not None else [window.ids for window in windows]
    batch = FormBatch(
        ids=_padded(rows, longest, pad),
        boxes=torch.from_numpy(_padded_boxes(windows, longest)),
        mask=_padded([np.ones(len(window.ids), np.int64) for window in windows], longest, 0).bool(),
        page=torch.tensor(list(page) if page is not None else [0] * len(windows)),
        pixels=pixels,
        features=features,
    )
    if labels is None:
        return batch
    classes = [label.classes for label in labels if label.classes is not None]
    pointers = [label.pointers for label in labels if label.pointers is not None]
    targets = [label.targets.astype(np.int64) for label in labels if label.targets is not None]
    return replace(
        batch,
        classes=_padded(classes, longest, IGNORED) if classes else None,
        pointers=_columns(_padded(pointers, longest, IGNORED), longest) if pointers else None,
        targets=_padded(targets, longest, 0).bool() if targets else None,
    )


def _padded(rows: Sequence[TokenIds], longest: int, filling: int) -> Tensor:
    out = np.full((len(rows), longest), filling, dtype=np.int64)
    for row, values in enumerate(rows):
        out[row, : len(values)] = values
    return torch.from_numpy(out)


def _padded_boxes(windows: Sequence[Window], longest: int) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    out = np.zeros((len(windows), longest, 4), dtype=np.float32)
    for row, window in enumerate(windows):
        out[row, : len(window.boxes)] = window.boxes
    return out


def _columns(pointers: Tensor, longest: int) -> Tensor:
    return pointers.masked_fill(pointers == NOWHERE, longest)
