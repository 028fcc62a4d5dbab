"""Rows of the added tokens of self-pretraining that are trained where the tables around them are frozen."""

from __future__ import annotations

from typing import Any, Final

import torch
from torch import Tensor, nn
from torch.nn import functional

from pfl_audit.models.self_pretraining import MARKERS
from pfl_audit.models.training_protocol import INPUT_ROWS
from pfl_audit.models.vt5.modeling import Vt5

_ROWS: Final = "marker_rows"
"""Name of the submodule in the network where the output layer is frozen as well."""


class MarkerRows(nn.Module):
    """The rows of MARKERS in frozen tables as one parameter: it replaces them in each look-up and in the scores.

    Adapters and frozen embeddings leave the tables as they are, so that these rows would stay random. The frozen rows
    get no gradient, and what is trained is the same in self-pretraining and after it.

    Args:
        network: Has the tokens of self-pretraining; gets this as a submodule, and hooks that use it.

    Attributes:
        rows: float (tables, MARKERS, width): of the embedding, and of an output layer of its own where that is frozen.
    """

    def __init__(self, network: Vt5) -> None:
        super().__init__()
        first = network.config.markers
        if first is None:
            raise ValueError("the network has no tokens of self-pretraining")
        self._slice = slice(first, first + len(MARKERS))
        shared, head = network.language_backbone.shared, network.language_backbone.lm_head
        scored = not head.weight.requires_grad
        tables = [shared, head] if scored and head.weight is not shared.weight else [shared]
        self.rows = nn.Parameter(torch.stack([table.weight.detach()[self._slice] for table in tables]))
        self._hooks = [shared.register_forward_hook(self._look_up)]
        self._hooks += [head.register_forward_hook(self._score)] if scored else []
        self._name = _ROWS if scored else INPUT_ROWS
        network.add_module(self._name, self)

    def merge(self, network: Vt5) -> None:
        """Write the rows into the tables: the network is an ordinary one again."""
        shared, head = network.language_backbone.shared, network.language_backbone.lm_head
        with torch.no_grad():
            for table, rows in zip((shared, head), self.rows, strict=False):
                table.weight[self._slice] = rows
        for hook in self._hooks:
            hook.remove()
        delattr(network, self._name)

    def _look_up(self, _: nn.Module, inputs: tuple[Any, ...], found: Tensor) -> Tensor:
        """Rows of token ids, int64 (...): float (..., width)."""
        place = inputs[0] - self._slice.start
        added = (place >= 0) & (place < len(MARKERS))
        return torch.where(added[..., None], functional.embedding(place * added, self.rows[0]), found)

    def _score(self, _: nn.Module, inputs: tuple[Any, ...], scores: Tensor) -> Tensor:
        """Scores of all tokens, float (..., tokens), with those of the added ones by their rows."""
        own = functional.linear(inputs[0], self.rows[-1])
        return torch.cat([scores[..., : self._slice.start], own, scores[..., self._slice.stop :]], dim=-1)
