"""What is asked about each observation of an audit, in this process or another."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from typing import Generic, Protocol, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import TypeAdapter
from torch import Tensor

from pfl_audit.attacks.inversion.clients import Clients
from pfl_audit.attacks.inversion.context import Case, Filling, GradientContext, Holder, keep_page, keep_text, unscored
from pfl_audit.attacks.inversion.controls import FILLINGS
from pfl_audit.attacks.inversion.template.template import Template
from pfl_audit.models.calls import Calls, InTurn, taken
from pfl_audit.models.gradient_protocol import GradientModel
from pfl_audit.models.openings import GradientOpening
from pfl_audit.progress import Silent, Task

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
Work = Callable[[GradientModel, Case, Task], T]
"""What is computed for one observation; a function of a module, for another process imports it."""


@dataclass(frozen=True, eq=False)
class Held:
    """A model whose gradients are shared, and the clients who fill in its forms.

    Attributes:
        clients: None where nothing is refilled.
        remembers: Whether other fillings of a page are kept for the next check.
    """

    model: GradientModel
    clients: Clients | None = None
    remembers: bool = False
    _fillings: dict[tuple[tuple[int, str], ...], Filling] = field(default_factory=dict)

    def filling(self, pages: tuple[tuple[int, str], ...]) -> Filling | None:
        """Other fillings of the forms of some pages, as of ``Case``."""
        if self.clients is None or not pages:
            return None
        made = self._fillings.get(pages) or partial(self.clients.filling, pages)
        if self.remembers and pages not in self._fillings:
            made = self._fillings[pages] = lru_cache(FILLINGS)(made)
        return made


@dataclass(frozen=True)
class HeldOpening:
    """Opening of a model with its clients.

    Attributes:
        made: SHA-256 of the templates, and of how the model was trained since it was opened.
        seed: As of ``Clients``; likewise ``asked`` and ``templates``.
        remembers: As of Held.
        weights: By parameter, of a model that was trained since.
    """

    model: GradientOpening
    made: str
    seed: int
    asked: tuple[str, str] | None
    remembers: bool
    templates: tuple[Template, ...] = field(compare=False)
    weights: Mapping[str, Tensor] | None = field(default=None, compare=False)

    @property
    def version(self) -> str:
        """Version of pfl-audit."""
        return self.model.version

    def open(self) -> Held:
        """Open it, and refuse a model that has changed since."""
        model = self.model.open()
        with torch.no_grad():
            for name, part in model.network.named_parameters():
                if self.weights is not None:
                    part.copy_(self.weights[name])
        return Held(model, Clients(model, self.templates, self.seed, self.asked, Silent()), self.remembers)


class _OnCase(Generic[T]):
    """A call about one observation; to another process it goes without other fillings, which are made there."""

    def __init__(self, work: Work[T], case: Case) -> None:
        self._work, self._case = work, case

    def __call__(self, held: Holder, task: Task) -> T:
        case = self._case
        if case.filling is None and case.pages:
            case = replace(case, filling=held.filling(case.pages))
        return self._work(held.model, case, task)

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self._work, replace(self._case, filling=None, bound=None, drawn=None))


def keeps_states(context: GradientContext) -> bool:
    """Whether what computes may keep the state of a search in a file of this machine."""
    return context.calls is None or context.calls.shares_files


def on_each(
    context: GradientContext,
    works: Mapping[int, Work[T]],
    kind: type[T],
    task: Task | None = None,
    units: Sequence[int] | None = None,
) -> Iterator[tuple[int, T]]:
    """Compute something for some of the observations.

    Args:
        works: What to compute, by the number of the case.
        kind: Class of what it gives.
        task: As of ``Calls.each``; likewise ``units``, in the order of ``works``.

    Returns:
        The number of each case and what was computed, in any order.

    Raises:
        WorkersError: Another process gave something else.
    """
    calls: Calls[Holder] = context.calls if context.calls is not None else InTurn(Held(context.model))
    numbers = list(works)
    works_of = [_OnCase(works[number], context.cases[number]) for number in numbers]
    for at, found in taken(calls, works_of, lambda found: isinstance(found, kind), task, units):
        yield numbers[at], found


def recorded(
    context: GradientContext,
    keys: Sequence[str],
    work: Callable[[int], Work[T]],
    kind: type[T],
    title: str,
    units: Sequence[int],
) -> Iterator[tuple[int, T]]:
    """Compute something for every observation, or take it from the records where it is known.

    Args:
        keys: Name of the record of each case.
        work: What to compute, from the number of the case.
        kind: Class of what it gives, which pydantic makes JSON of.
        title: Name of the progress.
        units: As of ``on_each``, of each case.

    Returns:
        The number of each case and what was computed, in any order.
    """
    adapter = TypeAdapter(kind)
    stored = {at: record for at, key in enumerate(keys) if (record := context.records.get(key)) is not None}
    for at, record in stored.items():
        yield at, adapter.validate_python(record)
    works = {at: work(at) for at in range(len(keys)) if at not in stored}
    left = [units[at] for at in works]
    with context.progress.task(title, sum(units), sum(units) - sum(left)) as task:
        for at, found in on_each(context, works, kind, task, left):
            context.records.put(keys[at], adapter.dump_python(found, mode="json"))
            yield at, found


@dataclass(frozen=True)
class Read(Generic[T_co]):
    """Result of one update.

    Attributes:
        compared: What came back, compared with the truth; None without a truth.
        kept: Without a truth, what came back, as JSON.
        page: uint8 (height, width, 3), or None where no pixels came back.
    """

    compared: T_co | None
    kept: Mapping[str, object]
    page: NDArray[np.uint8] | None = None


class ReadCase(Protocol[T_co]):
    """Reads one observation."""

    def __call__(self, model: GradientModel, case: Case, task: Task, *, rng: np.random.Generator) -> Read[T_co]:
        """Read one update, with the arguments of ``Work``; ``rng`` draws the noise that is read beside it."""


def read_each(context: GradientContext, title: str, method: str, read: ReadCase[T]) -> dict[int, Read[T]]:
    """Read every observation; what came back without a truth is kept in the private folder.

    Args:
        title: Name of the progress.
        method: As of ``keep_text``.
        read: What reads one.

    Returns:
        What each gave, by the number of the case.

    Raises:
        NotAuditableError: None of them has a truth to compare with.
    """
    rngs = [context.rng("inversion", "noise", case.seen.name) for case in context.cases]
    works = {at: partial(read, rng=rng) for at, rng in enumerate(rngs)}
    with context.progress.task(title, len(works)) as task:
        found = dict(sorted(on_each(context, works, Read, task, [1] * len(works))))
    for at, one in found.items():
        if one.compared is not None:
            continue
        keep_text(context, method, context.cases[at], one.kept)
        if one.page is not None:
            keep_page(context, method, context.cases[at], one.page)
    if all(one.compared is None for one in found.values()):
        raise unscored()
    return found
