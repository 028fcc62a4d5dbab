"""What the stated noise of an update allows."""

from __future__ import annotations

from collections.abc import Sequence

from pfl_audit.attacks.inversion.bound import NoiseBound
from pfl_audit.attacks.inversion.clients import Clients, norm_of, share
from pfl_audit.attacks.inversion.context import Truth
from pfl_audit.attacks.inversion.inputs import GradientInputs
from pfl_audit.models.gradient_protocol import GradientModel
from pfl_audit.progress import Progress

_COMPARED = 16
"""Other fillings whose gradients are compared with the own one."""


def bound_of(
    inputs: GradientInputs,
    model: GradientModel,
    clients: Clients,
    truths: Sequence[Truth],
    asked: Sequence[tuple[int, str]],
    progress: Progress,
) -> NoiseBound | None:
    """What the stated noise allows, by the clipping norm, else by the distances of other fillings."""
    if not inputs.noise:
        return None
    if inputs.clip is not None:
        return NoiseBound(inputs.noise, 2 * inputs.clip)
    if not truths:
        return None
    own, apart = share(model, truths), 0.0
    with progress.task("distances of other fillings", _COMPARED) as task:
        for number in range(_COMPARED):
            other = share(model, clients.others(asked, number))
            apart = max(apart, norm_of({name: own[name] - other[name] for name in own.keys() & other.keys()}))
            task.advance()
    return NoiseBound(inputs.noise, apart, _COMPARED)
