from collections.abc import Sequence

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from pfl_audit.errors import AuditError
from pfl_audit.models.batch_budget import BatchBudget
from pfl_audit.models.device import is_out_of_memory


class Memory:
    """Computes rows of so many tokens each, padded to the longest; there is room for ``room`` tokens."""

    def __init__(self, room: int, kind: type[Exception] = torch.OutOfMemoryError) -> None:
        self.room, self.kind = room, kind
        self.batches: list[list[int]] = []
        self.released = 0
        self.budget = BatchBudget(None, self.release, "cuda")

    def release(self) -> None:
        self.released += 1

    def call(self, rows: Sequence[int]) -> list[int]:
        self.batches.append(list(rows))
        if len(rows) * max(rows) > self.room:
            raise self.kind("CUDA out of memory. Tried to allocate 20.00 MiB.")
        return [-row for row in rows]

    def run(self, rows: Sequence[int]) -> Sequence[int]:
        return self.budget.run(rows, lambda row: row, self.call)


@given(st.lists(st.lists(st.integers(1, 50), min_size=1, max_size=20), max_size=4), st.integers(50, 2000))
def test_every_row_is_computed_once_in_order_whatever_the_memory(batches: list[list[int]], room: int) -> None:
    memory = Memory(room)
    for rows in batches:
        assert list(memory.run(rows)) == [-row for row in rows]
    done = [rows for rows in memory.batches if len(rows) * max(rows) <= room]
    assert [row for rows in done for row in rows] == [row for rows in batches for row in rows]
    assert memory.released == len(memory.batches) - len(done) <= 5, "20 rows are halved four times at the most"


def test_what_was_found_is_kept() -> None:
    memory = Memory(100)
    memory.run([30] * 16)
    assert (memory.budget.found, memory.released) == (60, 3)
    memory.batches.clear()
    memory.run([30] * 16)
    assert [len(rows) for rows in memory.batches] == [2] * 8
    assert memory.budget.size(30, own=128) == 2
    assert memory.budget.size(90, own=128) == 1


def test_one_row_that_does_not_fit_is_one_line() -> None:
    memory = Memory(100)
    with pytest.raises(AuditError, match=r"device 'cuda' has no room for one input of 101 tokens\. Use a device"):
        memory.run([10, 101])


def test_other_errors_are_not_taken_for_want_of_memory() -> None:
    def call(rows: Sequence[int]) -> list[int]:
        raise RuntimeError("shapes do not fit")

    with pytest.raises(RuntimeError, match="shapes"):
        BatchBudget(None, lambda: None, "cpu").run([1, 2], lambda row: row, call)


@pytest.mark.parametrize(
    ("error", "full"),
    [
        (torch.OutOfMemoryError("whatever"), True),
        (RuntimeError("MPS backend out of memory (MPS allocated: 9 GB, other allocations: 1 GB)"), True),
        (
            RuntimeError("[enforce fail at alloc_cpu.cpp:121] DefaultCPUAllocator: can't allocate memory"),
            True,
        ),
        (RuntimeError("DefaultCPUAllocator: not enough memory: you tried to allocate 9 bytes."), True),
        (RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"), True),
        (MemoryError(), True),
        (RuntimeError("mat1 and mat2 shapes cannot be multiplied"), False),
        (AuditError("a page says: out of memory"), False),
    ],
)
def test_what_allocators_say(error: Exception, full: bool) -> None:
    assert is_out_of_memory(error) is full
    wrapped = AuditError("the model fails on a question")
    wrapped.__cause__ = error
    assert is_out_of_memory(wrapped) is full


def test_the_real_allocator_of_the_cpu_is_understood() -> None:
    with pytest.raises(RuntimeError) as caught:
        torch.empty(1 << 60, dtype=torch.uint8)
    assert is_out_of_memory(caught.value)


def test_a_number_that_the_user_gives_replaces_the_models_own_limit() -> None:
    budget = BatchBudget(1000, lambda: None, "cpu")
    assert [budget.size(cost, own=4) for cost in (1, 300, 5000)] == [1000, 3, 1]
