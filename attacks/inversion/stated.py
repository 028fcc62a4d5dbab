"""What is stated of an update, held against its numbers, and what stated noise allows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from torch import Tensor

from pfl_audit.attacks.inversion.bound import NoiseBound
from pfl_audit.attacks.inversion.clients import Clients, norm_of, share
from pfl_audit.attacks.inversion.context import Truth
from pfl_audit.attacks.inversion.subject import GradientInputs
from pfl_audit.errors import UsageError
from pfl_audit.models.gradient_protocol import GradientModel
from pfl_audit.progress import Progress

_COMPARED = 16
"""Other fillings whose gradients are compared with the own one."""
_ENOUGH = 100
"""Entries of a tensor from which on its size shows whether it holds noise."""
_ABOVE = 1.001
"""Of the stated norm, up to which rounding explains more."""


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


def require_stated(path: Path, gradient: Mapping[str, Tensor], inputs: GradientInputs) -> None:
    """Check that a gradient can hold the noise and have the norm that are stated.

    Raises:
        UsageError: It cannot.
    """
    for name, part in gradient.items():
        size = float(part.double().square().mean().sqrt())
        if part.numel() >= _ENOUGH and size < inputs.noise / 2:
            raise UsageError(
                f"gradient {path} cannot hold noise of {inputs.noise:.2g} an entry: {name} has {size:.2g} in all",
                "State the noise as it was added, or leave --noise out",
            )
    norm = norm_of(gradient)
    if inputs.clip is not None and not inputs.noise and norm > _ABOVE * inputs.clip:
        raise UsageError(
            f"gradient {path} has a norm of {norm:.3g}, above the {inputs.clip:.3g} that it was clipped to",
            "State the norm as it was, or leave --clip out",
        )
