"""Separation of batches: python -m tests.bench.batches CASES WIDTH [PICTURE] [KIND ...].

A LayoutLMv3 with random weights, WIDTH wide, whose pages are PICTURE pixels wide (0: it takes no image); drawn forms.
One row for each kind of update, as Markdown: private tokens at their positions in their boxes, pages, the level of
``inversion.words`` and the causes.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from pfl_audit.attacks.inversion.bag import bag_of, counts_of, scored
from pfl_audit.attacks.inversion.bag_readers import Bag
from pfl_audit.attacks.inversion.clients import share
from pfl_audit.attacks.inversion.context import Case
from pfl_audit.attacks.inversion.controls import PAGES, PLACES
from pfl_audit.attacks.inversion.decision import decide
from pfl_audit.attacks.inversion.present_bag import many
from pfl_audit.models.open import open_gradient_model
from tests.attacks.inversion import updates
from tests.attacks.inversion.batch_models import FORMS, save_model
from tests.attacks.inversion.room import BUDGET, Room, other_weights

Make = Callable[[Room, int], Case]


def main(cases: int, width: int, picture: int = 0, *chosen: str) -> None:
    """Print the table."""
    with tempfile.TemporaryDirectory() as folder:
        model = open_gradient_model(str(save_model(Path(folder), width, picture=picture or None)), "cpu")
        room = Room(model, FORMS)
        print("| what is shared | placed | false | other places | pages | certified | error | level | cause | s |")
        print("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |")
        for kind, make in kinds().items():
            if not chosen or kind in chosen:
                print(row(room, make, kind, cases), flush=True)


def row(room: Room, make: Make, kind: str, cases: int) -> str:
    """One line."""
    placed, pages, named, certified, wanted = np.zeros(3, int), 0, 0, 0, 0
    errors: list[float] = []
    counts, causes, seconds, candidates = [], set[str](), 0.0, 0
    for number in range(cases):
        case = make(room, number)
        began = time.process_time()
        bag: Bag = bag_of(room.model, case)
        seconds += time.process_time() - began
        found = counts_of(room.model, case, bag)
        counts.append(scored(found))
        placed += found[PLACES][0]
        certified += int(found[PAGES][0, 0])
        right, many = _pages(bag, case)
        pages, named, wanted = pages + right, named + many, wanted + len(case.truths)
        errors += [bag.error] if bag.error is not None else []
        causes |= {str(limit.cause) for limit in bag.limits}
        candidates += bag.candidates
    decision = decide(counts, BUDGET)
    assert decision is not None
    cells = [kind, f"{placed[0]} of {placed[1]}", f"{placed[2] - placed[0]}", f"{candidates:,}",
             f"{pages} of {wanted} ({named} named)", f"{certified} of {wanted}",
             f"{max(errors):.0e}" if errors else "–", decision.level, ", ".join(sorted(causes)) or "–",
             f"{seconds / cases:.1f}"]  # fmt: skip
    return f"| {' | '.join(cells)} |"


def _pages(bag: Bag, case: Case) -> tuple[int, int]:
    """Pages whose tokens came back in order, certified or not, and how many were named."""
    own = [tuple(truth.text["input_ids"].tolist()) for truth in case.truths]
    return sum(page in own for page in bag.pages), len(bag.pages)


def kinds() -> dict[str, Make]:
    """Updates by what is done to them."""
    changes: dict[str, Callable[[updates.Update], updates.Update]] = {
        "batch of 2, clipped to 1": updates.clipped,
        "batch of 2, float16": lambda given: updates.rounded(given, torch.float16),
        "batch of 2, bfloat16": lambda given: updates.rounded(given, torch.bfloat16),
        "batch of 2, noise of 1e-4 an entry": lambda given: updates.noisy(given, 1e-4),
        "batch of 2, noise of 1e-2 an entry": lambda given: updates.noisy(given, 1e-2),
        "batch of 2, int8, a scale for each row": lambda given: updates.integers(given, by_row=True),
        "batch of 2, word table frozen": lambda given: updates.frozen(given, "word_embeddings"),
    }
    made: dict[str, Make] = {
        f"batch of {size}": lambda room, number, size=size: room.case(number, batch=size)  # type: ignore[misc]
        for size in (2, 4, 8)
    }
    made["sum of 3 clients"] = _summed
    made |= {name: _changed(change) for name, change in changes.items()}
    for steps in (1, 5):
        made[f"batch of 2, SGD, rate 1e-3, {many(steps, 'step')}"] = _trained(steps)
    made["batch of 2, dropout of 0.1"] = lambda room, number: room.case(
        number, batch=2, gradient=updates.dropped(room.model, room.case(number, batch=2).truths)
    )
    made["control: other pages of the form"] = _other
    made["control: other pages, another model"] = _other_model
    made["control: noise alone"] = _changed(lambda given: {n: torch.randn(p.shape) for n, p in given.items()})
    return made


def _changed(change: Callable[[updates.Update], updates.Update]) -> Make:
    def make(room: Room, number: int) -> Case:
        return room.case(number, batch=2, gradient=change(dict(room.case(number, batch=2).seen.gradient)))

    return make


def _trained(steps: int) -> Make:
    def make(room: Room, number: int) -> Case:
        truths = room.case(number, batch=2).truths
        case = room.case(number, batch=2, gradient=updates.trained(room.model, truths, steps, updates.sgd(1e-3)))
        return replace(case, seen=replace(case.seen, steps=steps))

    return make


def _summed(room: Room, number: int) -> Case:
    case = room.case(number, batch=3)
    return room.case(number, batch=3, gradient=updates.added([share(room.model, [one]) for one in case.truths]))


def _others(room: Room, number: int) -> updates.Update:
    return share(room.model, [room.clients.page("batch", 2 * (2 * number + at)) for at in range(2)])


def _other(room: Room, number: int) -> Case:
    return room.case(number, batch=2, gradient=_others(room, number))


def _other_model(room: Room, number: int) -> Case:
    with other_weights(room.model, number):
        given = _others(room, number)
    return room.case(number, batch=2, gradient=given)


if __name__ == "__main__":
    cases, width, *rest = sys.argv[1:]
    main(int(cases), int(width), int(rest[0]) if rest else 0, *rest[1:])
