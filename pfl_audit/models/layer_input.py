"""What a layer is given, without computing what comes behind it."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn


class _EnoughError(Exception):
    """Ends a pass behind the layer that was asked for."""


def layer_input(layer: nn.Module, run: Callable[[], object]) -> Tensor:
    """First argument of a layer in a pass.

    Args:
        layer: Part of the network that ``run`` passes through.
        run: The pass; it ends at the layer.
    """
    held: list[Tensor] = []

    def keep(_: nn.Module, given: tuple[Tensor, ...]) -> None:
        held.append(given[0])
        raise _EnoughError

    hook = layer.register_forward_pre_hook(keep)
    try:
        with torch.no_grad():
            run()
    except _EnoughError:
        pass
    finally:
        hook.remove()
    return held[0]
