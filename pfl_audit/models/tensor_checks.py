"""Check of a checkpoint's tensors against the shapes that its network has."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from pathlib import Path

from torch import Tensor

from pfl_audit.errors import AuditError

Shapes = Mapping[str, tuple[int, ...]]
_LISTED = 5
_LONGEST = 160


def require_shapes(
    expected: Shapes,
    state: Mapping[str, Tensor],
    folder: Path,
    *,
    optional: Collection[str] = (),
    name_of: Callable[[str], str] = str,
) -> None:
    """Refuse tensors that are missing, unknown, of another shape, or no floats.

    Args:
        expected: Name to shape of the network's tensors.
        state: Name to tensor of the checkpoint.
        optional: Names that may be missing.
        name_of: Maps a name in the network to the name in the checkpoint.

    Raises:
        AuditError: The tensors do not match; the message has the first few names.
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
    """The first few names, and the number of the others."""
    every = sorted(names)
    more = [f"and {len(every) - _LISTED} more"] if len(every) > _LISTED else []
    return separator.join([*(name[:_LONGEST] for name in every[:_LISTED]), *more])
