"""Evidence that does not come from the page that it is held against."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import torch
from torch import Tensor

from pfl_audit.attacks.inversion.clients import share
from pfl_audit.attacks.inversion.context import Case
from tests.attacks.inversion.room import Room, other_weights

Given = Mapping[str, Tensor]


def another_page(room: Room, number: int) -> Given:
    """The gradient of another page of the form."""
    return share(room.model, [room.clients.page("batch", number * 2)])


def another_form(room: Room, number: int) -> Given:
    """The gradient of a page of another form."""
    return share(room.model, [room.clients.page("batch", number * 2 + 1)])


def noise(room: Room, number: int) -> Given:
    """Standard normal numbers."""
    rng = torch.Generator().manual_seed(number)
    return {name: torch.randn(part.shape, generator=rng) for name, part in room.case(number).seen.gradient.items()}


def constants(room: Room, number: int) -> Given:
    """One small number everywhere."""
    return {name: torch.full_like(part, 1e-12) for name, part in room.case(number).seen.gradient.items()}


def another_model(room: Room, number: int) -> Given:
    """The gradient of another page under other weights."""
    with other_weights(room.model, number):
        return share(room.model, [room.clients.page("batch", number * 2)])


def two_clients(room: Room, number: int) -> Given:
    """The mean gradient of two other pages."""
    return share(room.model, [room.clients.page("batch", 2 * number + 40 + 2 * at) for at in range(2)])


OTHERS: dict[str, Callable[[Room, int], Given]] = {
    make.__name__.replace("_", " "): make
    for make in (another_page, another_form, noise, constants, another_model, two_clients)
}


def case_of(room: Room, number: int, kind: str | None = None) -> Case:
    """A page, beside evidence of something else; the kinds take turns where none is given."""
    kind = kind or list(OTHERS)[number % len(OTHERS)]
    case = room.case(number)
    return replace(case, seen=replace(case.seen, gradient=OTHERS[kind](room, number)))
