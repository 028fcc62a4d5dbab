"""Processes of one machine that torchrun or accelerate started, connected by torch.distributed.

They exchange JSON and tensors over the loopback interface, never pickled objects. Messages and tensors on the CPU go by
gloo, tensors on GPUs by NCCL. Every exchange also says whether a process has failed, so that all of them end with its
error, and none waits for one that has ended.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from datetime import timedelta
from types import TracebackType
from typing import Any, Final

import torch
from torch import Tensor, distributed, nn

from pfl_audit import errors
from pfl_audit.errors import AuditError, UsageError, is_interrupt
from pfl_audit.launcher import ALONE, Launch
from pfl_audit.models.device import AUTO, is_out_of_memory
from pfl_audit.models.training_protocol import DivisibleSet, TrainingSet
from pfl_audit.training.federated.secure_rng import seed_for
from pfl_audit.training.process_group import ONE, ProcessGroup
from pfl_audit.training.rendezvous import LOOK, START, meet
from pfl_audit.training.trainable import Trainable

_MESSAGE = 16384
"""Bytes of a message of an exchange."""
_LONGEST = 600
"""Characters of a problem or a remedy in it: at most twelve bytes each as JSON."""
_PATIENCE = timedelta(days=30)
"""How long a process waits for one that is connected; one that has ended is noticed at once."""
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def process_group(launch: Launch) -> AbstractContextManager[ProcessGroup]:
    """The processes of a training, connected until the end of the block: one, or those of a launcher.

    Raises:
        UsageError, AuditError: As TorchGroup.
    """
    return nullcontext(ONE) if launch.size == 1 else TorchGroup(launch)


class TorchGroup:
    """As of ProcessGroup; as a context it ends in all processes together, with the error of any of them.

    Args:
        launch: Place of this process; there are at least two.

    Raises:
        UsageError: The variables of a launcher are missing.
        AuditError: The processes cannot be connected.
    """

    def __init__(self, launch: Launch) -> None:
        self.rank, self.size, self.leads = launch.rank, launch.size, launch.leads
        self._ended = False
        loopback = "lo0" if sys.platform == "darwin" else "lo"
        for library in ("GLOO", "NCCL"):
            os.environ.setdefault(f"{library}_SOCKET_IFNAME", loopback)
        backend = "nccl" if torch.cuda.is_available() else "gloo"
        try:
            store = meet(launch)
            distributed.init_process_group(backend, store=store, timeout=START, rank=self.rank, world_size=self.size)
            self._cpu = distributed.new_group(backend="gloo", timeout=_PATIENCE)
        except (RuntimeError, ValueError) as error:
            raise AuditError(
                f"the {self.size} processes of the training cannot be connected",
                "Start by torchrun on one machine, with a --master-port that is free",
            ) from error

    def __enter__(self) -> TorchGroup:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.exchange({})
            distributed.destroy_process_group()
        elif not self._ended and not is_interrupt(error):
            with suppress(AuditError):  # the same error, which this process has
                self.exchange({"failed": _told(error, self.rank)})

    def device(self, name: str) -> str:
        """As of ProcessGroup: as of ``own_device``, which is torch's current one from then on."""
        own = own_device(name, self.rank, self.size)
        if own.startswith("cuda:"):
            torch.cuda.set_device(own)
        return own

    @contextmanager
    def leader_first(self) -> Iterator[None]:
        """As of ProcessGroup."""
        if not self.leads:
            self.exchange({})
        yield
        if self.leads:
            self.exchange({})

    def losses(self, examples: TrainingSet, rows: Sequence[int]) -> Iterator[Tensor]:
        """As of ProcessGroup: every ``size``-th example, so that shares have similar lengths; none of a small batch."""
        if not isinstance(examples, DivisibleSet):
            raise UsageError("models of this family cannot be trained by several processes", ALONE)
        if part := range(self.rank, len(rows), self.size):
            yield examples.part_loss(rows, part)

    def total(self, loss: float) -> float:
        """As of ProcessGroup."""
        return sum(float(told["loss"]) for told in self.exchange({"loss": loss}))

    def sum_gradients(self, parameters: Sequence[nn.Parameter]) -> None:
        """As of ProcessGroup; the gradients travel as one tensor."""
        has = torch.tensor([float(one.grad is not None) for one in parameters], device=parameters[0].device)
        flat = torch.cat([*(_gradient(one).reshape(-1) for one in parameters), has])
        with self._connected():
            distributed.all_reduce(flat, group=self._cpu if flat.device.type == "cpu" else None)
        *sums, has = torch.split(flat, [*(one.numel() for one in parameters), len(parameters)])
        for parameter, total, some in zip(parameters, sums, has.tolist(), strict=True):
            parameter.grad = total.view_as(parameter) if some else None

    def reseed(self, seed: int, step: int) -> None:
        """As of ProcessGroup: each process draws other numbers in each step, so that only the step is kept."""
        torch.manual_seed(seed_for(seed, "dropout", step, self.rank))

    def require_same(self, trainable: Trainable) -> None:
        """As of ProcessGroup."""
        digest = hashlib.sha256(trainable.read().numpy().tobytes()).hexdigest()
        if len({told["weights"] for told in self.exchange({"weights": digest})}) > 1:
            raise AuditError("the processes no longer have the same weights", "Use GPUs of one kind, or --device cpu")

    def exchange(self, message: dict[str, Any]) -> list[dict[str, Any]]:
        """The messages of all processes, in their order.

        Args:
            message: A short JSON object.

        Raises:
            AuditError: A process failed, with its error, or was killed.
        """
        mine = _padded(message)
        found = [torch.empty_like(mine) for _ in range(self.size)]
        with self._connected():
            distributed.all_gather(found, mine, group=self._cpu)
        messages: list[dict[str, Any]] = [json.loads(one.numpy().tobytes()) for one in found]
        for message in messages:
            if "failed" in message:
                self._end()
                raise _error(*message["failed"])
        return messages

    def tell(self, order: dict[str, Any]) -> None:
        """Give a JSON object of any size to the processes that ``hear``, as the one that leads."""
        content = torch.frombuffer(bytearray(json.dumps(order).encode()), dtype=torch.uint8)
        self.exchange({"bytes": len(content)})
        self.broadcast(content)

    def hear(self) -> dict[str, Any]:
        """The message of the process that leads.

        Raises:
            AuditError: As exchange.
        """
        content = torch.empty(self.exchange({})[0]["bytes"], dtype=torch.uint8)
        return json.loads(self.broadcast(content).numpy().tobytes())

    def broadcast(self, tensor: Tensor) -> Tensor:
        """The tensor of the process that leads, in place of one of its shape and type."""
        with self._connected():
            distributed.broadcast(tensor, 0, group=self._cpu)
        return tensor

    def send(self, tensor: Tensor) -> None:
        """Give a tensor, on the CPU, to the process that leads, which receives it next."""
        with self._connected():
            distributed.send(tensor, 0, group=self._cpu)

    def receive(self, shape: tuple[int, ...], rank: int) -> Tensor:
        """A tensor, float32 ``shape``, that a process sends."""
        tensor = torch.empty(shape)
        with self._connected():
            distributed.recv(tensor, rank, group=self._cpu)
        return tensor

    @contextmanager
    def _connected(self) -> Iterator[None]:
        """Say so where a process is lost."""
        try:
            yield
        except RuntimeError as error:
            if is_out_of_memory(error):
                raise
            time.sleep(LOOK)  # an interrupt of all processes may reach this one last
            self._end()
            raise AuditError(
                "a process of the training was killed, perhaps for want of memory", "Repeat the command: it goes on"
            ) from error

    def _end(self) -> None:
        """Exchange no more, and end by ourselves: a launcher interrupts all processes once one has ended."""
        self._ended = True
        for number in _SIGNALS:
            signal.signal(number, signal.SIG_IGN)


def own_device(name: str, rank: int, size: int) -> str:
    """The device of one of several processes: of GPUs the one with its number, else a device that all can share.

    Args:
        name: ``auto``, ``cuda`` or ``cpu``.
        rank: Number of the process.
        size: Number of processes.

    Raises:
        UsageError: There are fewer GPUs than processes, or the device is a single one.
    """
    gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if name == AUTO:
        name = "cuda" if gpus else "cpu"
    if name == "cuda" and gpus:
        if gpus < size:
            raise UsageError(
                f"{size} processes were started, and {gpus} GPU{'s are' if gpus > 1 else ' is'} there",
                f"Start {gpus}, such as by torchrun --nproc-per-node {gpus}",
            )
        return f"cuda:{rank}"
    if name not in ("cpu", "cuda"):
        raise UsageError(f"{size} processes cannot share the device '{name}'", f"Use --device cuda. {ALONE}")
    return name


def _gradient(parameter: nn.Parameter) -> Tensor:
    return torch.zeros_like(parameter) if parameter.grad is None else parameter.grad


def _padded(message: dict[str, Any]) -> Tensor:
    """A message, uint8 (_MESSAGE,)."""
    return torch.frombuffer(bytearray(json.dumps(message).encode().ljust(_MESSAGE)), dtype=torch.uint8)


def _told(error: BaseException, rank: int) -> tuple[str, str, str]:
    """An error as class, problem and remedy; of an unforeseen one never the text, which may hold a value."""
    if isinstance(error, AuditError):
        kind = next(one.__name__ for one in type(error).__mro__ if one.__module__ == errors.__name__)
        return kind, error.problem[:_LONGEST], error.remedy[:_LONGEST]
    if is_out_of_memory(error):
        return AuditError.__name__, f"process {rank} is out of memory", "Lower --batch-size, or start fewer processes"
    return (
        AuditError.__name__,
        f"internal error in process {rank}: {type(error).__name__}",
        "Set PFL_AUDIT_TRACEBACK=1 to see the traceback, and report it",
    )


def _error(kind: str, problem: str, remedy: str) -> AuditError:
    """The error that a process reported."""
    for one in (errors.UsageError, errors.NotAuditableError, errors.StorageError):
        if one.__name__ == kind:
            return one(problem, remedy)
    return AuditError(problem, remedy)
