"""Batches that fit in the memory of a device: halved where it runs out, down to one question."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from pfl_audit.errors import AuditError
from pfl_audit.models.device import is_out_of_memory

T = TypeVar("T")
R = TypeVar("R")


class BatchBudget:
    """Largest number of tokens in a batch, padding included: questions times the longest input.

    Args:
        asked: That number as the user gives it, in place of a model's own limit; None for the latter.
        release: Called each time that memory has run out, before a smaller batch is tried.
        device: Torch's name of the device, for the error.

    Attributes:
        found: Tokens that memory was found to have room for; None as long as it has not run out.
    """

    def __init__(self, asked: int | None, release: Callable[[], None], device: str) -> None:
        self._asked, self._release, self._device = asked, release, device
        self.found: int | None = None

    def size(self, cost: int, own: int) -> int:
        """Largest number of rows in a batch, at least 1.

        Args:
            cost: Tokens of the longest row.
            own: The model's own limit.
        """
        limit = own if self._asked is None else self._asked // cost
        return max(1, limit if self.found is None else min(limit, self.found // cost))

    def run(
        self, rows: Sequence[T], cost: Callable[[T], int], call: Callable[[Sequence[T]], Sequence[R]]
    ) -> Sequence[R]:
        """Results of all rows, in order: of one call, or of several where memory runs out.

        Args:
            rows: What is computed together.
            cost: Tokens of a row; asked for only where memory has run out.
            call: Gives one result a row, which does not depend on the other rows.

        Raises:
            AuditError: One row alone does not fit.
        """
        if self.found is None and (whole := self._tried(rows, call)) is not None:
            return whole
        costs = [cost(row) for row in rows]
        if self.found is None:
            self._halve(len(rows), max(costs))
        results: list[R] = []
        while len(results) < len(rows):
            left = costs[len(results) :]
            count = self._fitting(left)
            given = self._tried(rows[len(results) : len(results) + count], call)
            if given is None:
                self._halve(count, max(left[:count]))
            else:
                results += given
        return results

    def _tried(self, rows: Sequence[T], call: Callable[[Sequence[T]], Sequence[R]]) -> Sequence[R] | None:
        """What a call gives; None where memory runs out."""
        try:
            return call(rows)
        except (RuntimeError, MemoryError, AuditError) as error:
            if not is_out_of_memory(error):
                raise
        self._release()  # after the error, whose frames hold tensors, is gone
        return None

    def _fitting(self, costs: Sequence[int]) -> int:
        """How many of the first rows the budget has room for, at least one."""
        longest = 0
        for count, cost in enumerate(costs):
            longest = max(longest, cost)
            if count and self.found is not None and (count + 1) * longest > self.found:
                return count
        return len(costs)

    def _halve(self, count: int, longest: int) -> None:
        """Half of a batch that did not fit."""
        if count < 2:
            raise AuditError(
                f"the memory of the device '{self._device}' has no room for one input of {longest:,} tokens",
                "Use a device with more memory, such as --device cpu; what is done is kept",
            )
        self.found = count // 2 * longest
