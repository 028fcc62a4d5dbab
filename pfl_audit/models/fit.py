"""Whether a checkpoint's tensors are those that its network has."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from pathlib import Path

from torch import Tensor

from pfl_audit.errors import AuditError

Shapes = Mapping[str, tuple[int, ...]]
_LISTED = 5
_LONGEST = 160


def require_fit(
    expected: Shapes,
    state: Mapping[str, Tensor],
    folder: Path,
    *,
    optional: Collection[str] = (),
    name_of: Callable[[str], str] = str,
) -> None:
    """Refuse tensors that are missing, unknown, of another shape, or no floats.

    Args:
        expected: Name to shape, of the network.
        state: Name to tensor, of the checkpoint.
        folder: Of the checkpoint, for the message.
        optional: Names that may be missing.
        name_of: What a tensor is called in the checkpoint.

    Raises:
        AuditError: With the first few names.
    """
    missing, extra = set(expected) - set(state) - set(optional), set(state) - set(expected)
    for names, what in ((missing, "lacks"), (extra, "has unknown")):
        if names:
            raise AuditError(
                f"{folder}: the checkpoint {what} {len(names)} tensors ({_listed(map(name_of, names), ', ')})",
                "Check that config.json and the weights belong together, and that the model is for this task",
            )
    wrong = [
        f"{name_of(name)} is {tuple(tensor.shape)}, config.json asks for {expected[name]}"
        for name, tensor in state.items()
        if tuple(tensor.shape) != expected[name]
    ]
    wrong += [
        f"{name_of(name)} is of {tensor.dtype}" for name, tensor in state.items() if not tensor.is_floating_point()
    ]
    if wrong:
        raise AuditError(
            f"{folder}: the weights do not fit: {_listed(wrong, '; ')}", "Check that config.json is the model's own"
        )


def _listed(names: Collection[str] | map[str], separator: str) -> str:
    """The first few, and how many more there are."""
    every = sorted(names)
    more = [f"and {len(every) - _LISTED} more"] if len(every) > _LISTED else []
    return separator.join([*(name[:_LONGEST] for name in every[:_LISTED]), *more])
