"""Windows side by side, as the network takes them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from pfl_audit.models.encoders.labels import NOWHERE, WindowLabels
from pfl_audit.models.form_protocol import TokenIds, Window
from pfl_audit.models.samples import IGNORED


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
        page: int64 (b,): which of the pages a window is of; zeros where there are none.
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
    rows = ids if ids is not None else [window.ids for window in windows]
    batch = FormBatch(
        ids=_padded(rows, pad),
        boxes=_padded([window.boxes for window in windows], 0),
        mask=_padded([np.ones(len(window.ids), np.bool_) for window in windows], 0),
        page=torch.tensor(list(page) if page is not None else [0] * len(windows)),
        pixels=pixels,
        features=features,
    )
    if labels is None:
        return batch
    longest = batch.ids.shape[1]
    classes = [label.classes for label in labels if label.classes is not None]
    pointers = [label.pointers for label in labels if label.pointers is not None]
    targets = [label.targets for label in labels if label.targets is not None]
    return replace(
        batch,
        classes=_padded(classes, IGNORED) if classes else None,
        pointers=_padded([np.where(row == NOWHERE, longest, row) for row in pointers], IGNORED) if pointers else None,
        targets=_padded(targets, 0) if targets else None,
    )


def _padded(rows: Sequence[NDArray[Any]], filling: float) -> Tensor:
    return pad_sequence([torch.from_numpy(row) for row in rows], batch_first=True, padding_value=filling)
