"""Strings of private fields by the span of patches: python -m tests.bench.patch_strings [PAGES [KIND]].

``donut``: the embedded Donut on embedded forms from the ninth on, by what is done to the update. ``fresh``: some of
these updates of forms from the fourth on, with values that were not looked at while the search was made. ``base``: a
VT5 of base width with random weights, its positions not shared. ``patches``: how many directions the patches of the
embedded forms take, by the side of a patch, in new small Donuts. Without KIND all of them. Prints Markdown.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from pfl_audit.attacks.inversion.context import Case
from pfl_audit.attacks.inversion.decision import decide
from pfl_audit.attacks.inversion.strings.audit import compare
from pfl_audit.attacks.inversion.strings.recovery import Strings, read_strings
from pfl_audit.attacks.inversion.template.synthetic import open_templates
from pfl_audit.attacks.inversion.template.template import Template
from pfl_audit.models.donut.small import SmallSize, new_donut, save_donut
from pfl_audit.models.gradient_protocol import GradientModel
from pfl_audit.models.open import open_gradient_model
from pfl_audit.models.vt5.checkpoint import save_vt5
from pfl_audit.progress import Silent
from pfl_audit.training.scratch import new_vt5
from tests.attacks.inversion import updates
from tests.attacks.inversion.room import BUDGET, Room

FIXTURES = Path(__file__).parents[2] / "fixtures"
Change = Callable[[Room, int], Mapping[str, Tensor]]
FIRST = 8
"""Bounds of the search were set on the first three forms; forms 9 and 10 were looked at while a rule of it was made."""
FRESH = 3
FILLING = 2
"""Of fresh pages: the first two fillings of these forms were looked at while rules of the search were made."""


def main(pages: int, chosen: str) -> None:
    """Print the tables."""
    forms = open_templates(FIXTURES / "templates")
    if chosen in ("", "patches"):
        patches(forms[0])
    if chosen in ("", "donut"):
        table(open_gradient_model(str(FIXTURES / "donut"), "cpu"), forms[FIRST : FIRST + pages], kinds())
    if chosen in ("", "fresh"):
        some = {name: kinds()[name] for name in ("one gradient", "bfloat16", "SGD, rate 1e-3, 1 step")}
        table(open_gradient_model(str(FIXTURES / "donut"), "cpu"), forms[FRESH : FRESH + pages], some, FILLING)
    if chosen in ("", "base"):
        with tempfile.TemporaryDirectory() as folder:
            save_vt5(new_vt5("base", 1000, seed=0), FIXTURES / "vt5-finetuned", Path(folder), extra={})
            some = {name: kinds()[name] for name in ("one gradient", "bfloat16")}
            table(open_gradient_model(folder, "cpu"), forms[FIRST : FIRST + pages], some)


def kinds() -> dict[str, Change]:
    """Updates by what is done to them."""

    def of(change: Callable[[Mapping[str, Tensor]], Mapping[str, Tensor]]) -> Change:
        return lambda room, page: change(room.case(page).seen.gradient)

    def steps(count: int, optimizer: updates.Optimizer) -> Change:
        return lambda room, page: updates.trained(room.model, room.case(page).truths, count, optimizer)

    return {
        "one gradient": of(lambda given: given),
        "bfloat16": of(lambda given: updates.rounded(given, torch.bfloat16)),
        "int8, a scale for each row": of(lambda given: updates.integers(given, by_row=True)),
        "noise of 1e-5 an entry": of(lambda given: updates.noisy(given, 1e-5)),
        "noise of 1e-4 an entry": of(lambda given: updates.noisy(given, 1e-4)),
        "SGD, rate 1e-3, 1 step": steps(1, updates.sgd(1e-3)),
        "SGD, rate 1e-3, 5 steps": steps(5, updates.sgd(1e-3)),
        "AdamW, rate 1e-4, 1 step": steps(1, updates.adamw(1e-4)),
        "batch of 2": lambda room, page: room.case(page, batch=2).seen.gradient,
        "control: another page of the form": lambda room, page: room.case(page + 1).seen.gradient,
        "control: noise alone": of(lambda given: {name: torch.randn(part.shape) for name, part in given.items()}),
    }


def table(model: GradientModel, forms: tuple[Template, ...], made: Mapping[str, Change], filling: int = 0) -> None:
    """One row for each kind of update, of one filling of each form."""
    print("| what is shared | strings | false | candidates | level | directions | cause | s a page |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for name, change in made.items():
        parts, causes, rooms, seconds, named, right, wanted, others = [], set(), [], 0.0, 0, 0, 0, 0
        for form in forms:
            room = Room(model, (form,))
            case = drawn(room, room.case(filling, batch=2) if "batch" in name else room.case(filling))
            case = replace(case, seen=replace(case.seen, gradient=change(room, filling)))
            began = time.process_time()
            got = read_strings(model, case.seen, np.random.default_rng(0), Silent())
            seconds += time.process_time() - began
            found = compare(case, got, Strings((), 0, 0, ()))
            parts.append(found.counts)
            causes |= {str(limit.cause) for limit in got.limits}
            rooms.append(f"{got.patches} of {got.room}")
            named, right, wanted = named + found.named, right + found.right, wanted + found.wanted
            others += len(found.readings) - found.named
        decision = decide(parts, BUDGET)
        cells = [name, f"{right} of {wanted}", str(named - right), str(others),
                 decision.level if decision else "–", ", ".join(rooms), ", ".join(sorted(causes)) or "–",
                 f"{seconds / len(forms):.0f}"]  # fmt: skip
        print(f"| {' | '.join(cells)} |", flush=True)


def drawn(room: Room, case: Case) -> Case:
    """A case with the values of other fillings."""
    pages = [(at, truth.question) for at, truth in enumerate(case.truths)]
    return replace(case, drawn=lambda number: room.clients.values(pages, number))


def patches(form: Template) -> None:
    """Directions of the patches of one form by the side of a patch."""
    print("| side | patches | projected to | directions of the form | of private patches | left for them | read |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for side in (16, 8, 4):
        size = SmallSize(224, 224, patch=side, embed=256, window=7, depths=(2,), heads=(4,), sharpness=4.0)
        with tempfile.TemporaryDirectory() as folder:
            save_donut(new_donut(size, 400, seed=0), FIXTURES / "donut", Path(folder))
            room = Room(open_gradient_model(folder, "cpu"), (form,))
            case = drawn(room, room.case(0))
            got = read_strings(room.model, case.seen, np.random.default_rng(0), Silent())
            found = compare(case, got, Strings((), 0, 0, ()))
        total = side * side + 1
        cells = (
            side,
            (224 // side) ** 2,
            256,
            total - got.room,
            got.patches,
            got.room,
            f"{found.right} of {found.wanted}",
        )
        print(f"| {' | '.join(map(str, cells))} |", flush=True)


if __name__ == "__main__":
    torch.manual_seed(0)
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 2, sys.argv[2] if len(sys.argv) > 2 else "")
