"""Devices that torch computes on: chosen, refused where they cannot be used, and out of memory."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from pfl_audit.errors import UsageError
from pfl_audit.models.family import Precision

if TYPE_CHECKING:
    from torch import Tensor

AUTO: Final = "auto"
_ORDER: Final = ("cuda", "mps", "cpu")
"""Devices that ``auto`` tries."""
_EXHAUSTED: Final = (
    "out of memory",  # CUDA and MPS
    "can't allocate memory",  # the CPU, on Linux and macOS
    "not enough memory",  # the CPU, on Windows
    "cublas_status_alloc_failed",
)
"""Parts of what torch's allocators say, in small letters."""
SINGLE: Final = ("mps",)
"""Kinds of devices that have no float64."""


def usable_device(name: str) -> str:
    """Torch's name of a device that can be used here (``meta`` cannot).

    Args:
        name: Torch's name, such as ``cuda:1``; or ``auto``, the first of cuda, mps and cpu that can be used.

    Raises:
        UsageError: There is no such device, or it cannot be used.
    """
    if name == AUTO:
        return next(device for device in _ORDER if _failure(device) is None)
    error = _failure(name)
    if error is not None:
        reason, remedy = _reason(name)
        raise UsageError(f"torch cannot use the device '{name}' here{reason}", remedy) from error
    return name


@contextmanager
def computing(device: str, precision: Precision) -> Iterator[None]:
    """Arithmetic of a network: matrix products in ``precision``, weights and sums in float32.

    With ``fp32`` convolutions on CUDA are computed in float32 as well, and not in TF32.
    """
    import torch

    kind = torch.device(device).type
    if precision != "fp32":
        with torch.autocast(kind, {"bf16": torch.bfloat16, "fp16": torch.float16}[precision]):
            yield
    elif kind == "cuda":
        with torch.backends.cudnn.flags(enabled=True, allow_tf32=False):
            yield
    else:
        yield


def arithmetic_of(device: str, precision: Precision) -> tuple[str, ...]:
    """What distinguishes answers that were computed otherwise than in float32 on the CPU; nothing for those.

    Args:
        device: Torch's name; the number of a device makes no difference.
    """
    kind = device.partition(":")[0]
    return () if (kind, precision) == ("cpu", "fp32") else (kind, precision)


def in_double(values: Tensor) -> Tensor:
    """Values in float64, on the CPU where their own device has none."""
    return (values.cpu() if values.device.type in SINGLE else values).double()


def is_out_of_memory(error: BaseException | None) -> bool:
    """Whether an error, or the one that it was raised from, says that the memory of a device is full."""
    while error is not None:
        told = str(error).lower() if isinstance(error, RuntimeError) else ""
        if isinstance(error, MemoryError) or any(part in told for part in _EXHAUSTED):
            return True
        if type(error).__name__ == "OutOfMemoryError":  # torch's, whatever it says
            return True
        error = error.__cause__
    return False


def release_memory(device: str) -> None:
    """Give back what torch keeps of freed memory."""
    import torch

    gc.collect()
    kind = torch.device(device).type
    if kind == "cuda":
        torch.cuda.empty_cache()
    elif kind == "mps":
        torch.mps.empty_cache()


def _failure(device: str) -> Exception | None:
    """What a small computation on a device raises; None if it can be used."""
    import torch

    try:
        two = torch.ones(2, 2, device=device)
        float((two @ two).sum())
    except Exception as error:  # every backend raises its own kind
        return error
    return None


def _reason(name: str) -> tuple[str, str]:
    """Why a device cannot be used, as the end of a sentence, and what helps."""
    import torch

    other = "or use --device auto"
    if name.startswith("cuda"):
        if torch.version.cuda is None and torch.version.hip is None:
            return ": this torch is built without CUDA", f"Install torch with CUDA, {other}"
        if not torch.cuda.is_available():
            return ": no GPU with a driver that this torch can use was found", f"Check nvidia-smi, {other}"
        return f": there are {torch.cuda.device_count()} CUDA devices, counted from 0", "Use --device auto"
    if name.startswith("mps") and not torch.backends.mps.is_available():
        return ": it needs macOS on Apple silicon, and torch built for it", "Use --device auto"
    return "", "Use --device cpu"
