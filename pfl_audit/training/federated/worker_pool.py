"""Pool of processes for local trainings: one process a core, each with one thread.

Small networks leave a second thread idle most of the time, while two providers fill two cores.
"""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import get_context

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pfl_audit.child_process import follow
from pfl_audit.errors import AuditError
from pfl_audit.training.federated.local import LocalTrainer, Trainer
from pfl_audit.training.federated.together import Job

_LARGEST = 50_000_000
"""Numbers of a network above which its own matrices fill the threads, and copies of it the memory."""

_LATE = 0.25
"""Seconds that an interrupt of all processes may take to reach this one after it has ended the others."""

_mine: LocalTrainer | None = None
"""The trainer of a process of the pool."""


def trainer_for(trainer: LocalTrainer, device: str) -> Trainer:
    """The trainer itself, or a pool of as many processes as torch has threads, where that is faster.

    The weights that a run ends with depend on torch's number of threads either way.
    """
    threads = torch.get_num_threads()
    if threads < 2 or device != "cpu" or sys.platform != "linux" or trainer.numbers > _LARGEST:
        return trainer
    return WorkerPool(trainer, threads)


class WorkerPool:
    """Copies of a trainer, which work at the same time and give what it would give with one thread.

    Args:
        trainer: Is copied when the first work comes (fork, so that pages and weights are not copied twice).
    """

    def __init__(self, trainer: LocalTrainer, size: int) -> None:
        self.trainable, self.together, self.batches = trainer.trainable, trainer.together, trainer.batches
        self._trainer = trainer
        self._size = size
        self._pool: ProcessPoolExecutor | None = None

    def train(self, weights: Tensor, rows: Sequence[int], *who: int) -> tuple[Tensor, float]:
        """One training, in this process: as LocalTrainer.train."""
        with _one_thread():
            return self._trainer.train(weights, rows, *who)

    def train_each(self, weights: Tensor, jobs: Sequence[Job]) -> Iterator[tuple[Tensor, float]]:
        """All of them from the same weights, results in the order of the jobs.

        Raises:
            AuditError: A process of the pool was killed.
        """
        if len(jobs) < 2:
            yield from (self.train(weights, rows, *who) for rows, who in jobs)
            return
        self._pool = self._pool or ProcessPoolExecutor(
            self._size, mp_context=get_context("fork"), initializer=_begin, initargs=(self._trainer,)
        )
        # Not pool.map: it cancels its futures in this thread, while the pool's own thread may fail the same futures.
        futures = deque(self._pool.submit(_train, weights.numpy(), group) for group in self._trainer.groups(jobs))
        try:
            while futures:
                for update, loss in futures.popleft().result():
                    yield torch.from_numpy(update), loss
        except BrokenProcessPool as error:
            time.sleep(_LATE)
            raise AuditError(
                "a process of the training was killed, perhaps for want of memory",
                "Repeat the command: it goes on; OMP_NUM_THREADS=1 needs the least memory",
            ) from error
        finally:
            if futures:  # interrupted, or the caller wants no more: the pool's own thread cancels the rest
                self._pool.shutdown(wait=False, cancel_futures=True)
                self._pool = None


@contextmanager
def _one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def _begin(trainer: LocalTrainer) -> None:
    """In a new process."""
    global _mine  # noqa: PLW0603 - a process has one
    _mine = trainer
    follow()
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)


def _train(weights: NDArray[np.float32], jobs: Sequence[Job]) -> list[tuple[NDArray[np.float32], float]]:
    if _mine is None:
        raise RuntimeError("the process has no trainer")
    return [(update.numpy(), loss) for update, loss in _mine.train_group(torch.from_numpy(weights), jobs)]
