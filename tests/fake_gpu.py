"""A GPU for machines that have none: tensors "on cuda" are labelled tensors of the CPU, and its memory can be small.

It is a double of torch's own rules: tensors of two devices do not mix, but for CPU scalars and CPU indices, and numpy
reads no tensor of a GPU. What one operation makes may be no larger than the memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Self

import pytest
import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

_GPU = torch.device("cuda:0")
_LABEL = "on_fake_gpu"
_INDEXING = {Tensor.__getitem__, torch.index_select}
_READS = {Tensor.numpy, Tensor.__array__}
_LOOKS = {torch._has_compatible_shallow_copy_type}
"""Functions that compare tensors without computing."""


class FakeGpu(TorchFunctionMode):
    """Within it torch has a device ``cuda``.

    Args:
        memory: Bytes of the largest tensor that an operation can make; None for any.
        doubles: Whether it has float64.

    Attributes:
        largest: Bytes of the largest tensor that an operation has made.
        exhausted: How often memory ran out.
    """

    def __init__(self, memory: int | None = None, *, doubles: bool = True) -> None:
        super().__init__()
        self.memory = memory
        self.doubles = doubles
        self.largest = 0
        self.exhausted = 0
        self._patches = pytest.MonkeyPatch()

    def __enter__(self) -> Self:
        made = nn.Parameter.__new__

        def new(kind: type[nn.Parameter], data: Tensor | None = None, requires_grad: bool = True) -> Tensor:
            parameter: Tensor = made(kind, data, requires_grad)
            _mark(parameter, data is not None and is_on_gpu(data))
            return parameter

        self._patches.setattr(nn.Parameter, "__new__", new)  # torch makes it without asking the mode
        self._patches.setattr(torch.cuda, "get_rng_state", lambda device: torch.get_rng_state())
        self._patches.setattr(torch.cuda, "set_rng_state", lambda state, device: torch.set_rng_state(state))
        super().__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        self._patches.undo()

    def __torch_function__(
        self, func: Callable[..., Any], types: object, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        kwargs = dict(kwargs or {})
        if func == Tensor.device.__get__:
            return _GPU if is_on_gpu(args[0]) else func(*args)
        if func == Tensor.is_cuda.__get__:
            return is_on_gpu(args[0])
        if func == Tensor.data.__set__:
            func(*args)
            _mark(args[0], is_on_gpu(args[1]))
            return None
        if func in (Tensor.to, Tensor.cpu, Tensor.cuda):
            return self._moved(func, args, kwargs)
        if func in _READS and is_on_gpu(args[0]):
            raise TypeError("can't convert cuda:0 device type tensor to numpy")
        given = list(_tensors((args, kwargs)))
        there = any(map(is_on_gpu, given))
        if func is Tensor.copy_ or (func is Tensor.__setitem__ and isinstance(args[2], Tensor) and not args[2].dim()):
            there = is_on_gpu(args[0])
        elif there:
            self._refuse_mixed(func, args, given)
        if kwargs.get("device") is not None:
            there = torch.device(kwargs["device"]).type == "cuda"
            kwargs["device"] = "cpu" if there else kwargs["device"]
        out = func(*args, **kwargs)
        if there:
            self._take(out, given)
        return out

    def _moved(self, func: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> Tensor:
        """A tensor on another device or of another type."""
        tensor, rest = args[0], list(args[1:])
        there = {Tensor.cpu: False, Tensor.cuda: True}.get(func, is_on_gpu(tensor))
        for at, value in enumerate(rest):
            if isinstance(value, Tensor):
                there = is_on_gpu(value)
            elif isinstance(value, str | torch.device):
                there, rest[at] = torch.device(value).type == "cuda", _real(value)
        if kwargs.get("device") is not None:
            there, kwargs["device"] = torch.device(kwargs["device"]).type == "cuda", _real(kwargs["device"])
        out: Tensor = tensor.to(*rest, **kwargs) if func is Tensor.to else tensor
        if there != is_on_gpu(tensor):
            out = out.detach().clone().requires_grad_(out.requires_grad) if out is tensor else out
        _mark(out, there)
        return out

    def _refuse_mixed(self, func: Callable[..., Any], args: Sequence[Any], given: Sequence[Tensor]) -> None:
        if func in _LOOKS or (func in _INDEXING and is_on_gpu(args[0])):
            return
        if stray := [tensor for tensor in given if not is_on_gpu(tensor) and tensor.dim()]:
            name = getattr(func, "__name__", str(func))
            raise RuntimeError(
                "Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu! "
                f"({name}, {[tuple(tensor.shape) for tensor in stray]})"
            )

    def _take(self, out: Any, given: Sequence[Tensor]) -> None:
        known = {tensor.untyped_storage().data_ptr() for tensor in given}
        for tensor in _tensors(out):
            _mark(tensor, True)
            if tensor.dtype is torch.float64 and not self.doubles:
                raise TypeError("Cannot convert a MPS Tensor to float64 dtype")
            if tensor.untyped_storage().data_ptr() in known:
                continue
            size = tensor.untyped_storage().nbytes()
            self.largest = max(self.largest, size)
            if self.memory is not None and size > self.memory:
                self.exhausted += 1
                raise torch.OutOfMemoryError(f"CUDA out of memory. Tried to allocate {size} bytes.")


GPUS = ("double", pytest.param("real", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here")))
"""Kinds of ``gpu``, for tests that pass on both."""


def gpu(kind: str) -> AbstractContextManager[object]:
    """Within it torch has a device ``cuda``: the double, or the one that this machine has."""
    return FakeGpu() if kind == "double" else nullcontext()


def is_on_gpu(tensor: Tensor) -> bool:
    """Whether a tensor is on the fake GPU."""
    return getattr(tensor, _LABEL, False)


def _mark(tensor: Tensor, there: bool) -> None:
    setattr(tensor, _LABEL, there)


def _real(device: Any) -> Any:
    return "cpu" if torch.device(device).type == "cuda" else device


def _tensors(value: Any) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, Mapping):
        for one in value.values():
            yield from _tensors(one)
    elif isinstance(value, tuple | list):
        for one in value:
            yield from _tensors(one)
