"""What the span of a VT5's inputs gives away: python -m tests.bench.input_span [PAGES [MODEL [KIND]]].

The embedded VT5, and one of base size with random weights, on embedded forms with random values. One row for each kind
of update, as Markdown, of private fields alone: different tokens and boxes that came back, of how many there are, and
false ones beside them; whole words in their boxes; on how many pages every pixel came back; the level of the finding of
words, and the causes. The last rows but three are controls: what was sent is not of the page that is scored.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch

from pfl_audit.attacks.inversion.bag import bag_of, counts_of, lower_share
from pfl_audit.attacks.inversion.controls import ALL_BOXES, ANY_ORDER, WORDS
from pfl_audit.attacks.inversion.decision import decide
from pfl_audit.attacks.inversion.template.synthetic import open_templates
from pfl_audit.errors import AuditError
from pfl_audit.models.open import open_gradient_model
from pfl_audit.models.vt5.checkpoint import save_vt5
from pfl_audit.models.vt5.gradients import Vt5Gradients
from pfl_audit.training.scratch import new_vt5
from tests.attacks.inversion import updates
from tests.attacks.inversion.room import BUDGET, Room
from tests.bench.inversion_updates import FIXTURES, Make, kinds

_MANY = ("batch", "sum")
"""Kinds whose pages are all of one form."""


OTHERS: dict[str, Make] = {
    "page encoder frozen": lambda room, page: room.case(
        page, gradient=updates.frozen(room.case(page).seen.gradient, "image_model.")
    ),
    "dropout of 0.1": lambda room, page: room.case(
        page, gradient=updates.dropped(room.model, room.case(page).truths, seed=page)
    ),
    "adapters of rank 6": lambda room, page: room.case(page, gradient=updates.adapters(room.case(page).seen.gradient)),
}
"""Kinds beside those of all models."""


def models(chosen: str) -> Iterator[tuple[str, Vt5Gradients]]:
    """The embedded VT5, and one of base size with random weights, by name, as far as the name holds what is chosen."""
    with tempfile.TemporaryDirectory() as folder:
        paths = {"embedded": FIXTURES / "vt5-finetuned", "base": Path(folder) / "base"}
        for name, path in paths.items():
            if chosen not in name:
                continue
            if name == "base":
                save_vt5(new_vt5("base", 1000, seed=0), paths["embedded"], path, extra={})
            model = open_gradient_model(str(path), "cpu")
            assert isinstance(model, Vt5Gradients)
            yield name, model


def main(pages: int, chosen: str = "", kind: str = "") -> None:
    """Print a table for each model."""
    templates = open_templates(FIXTURES / "templates")
    for name, model in models(chosen):
        alone, both = Room(model, templates[:1]), Room(model, templates[:2])
        print(f"\n{name}, {pages} pages\n")
        print("| what is shared | tokens | false | boxes | false | words | false | pages | level | cause | s a page |")
        print("| --- " * 11 + "|")
        for each, make in {**kinds(), **OTHERS}.items():
            if each.startswith(kind):
                print(row(alone if each.startswith(_MANY) else both, each, make, pages), flush=True)


def row(room: Room, kind: str, make: Make, pages: int) -> str:
    """One line."""
    bags, causes, seconds, whole = [], set(), 0.0, 0
    try:
        for page in range(pages):
            case = make(room, page)
            began = time.process_time()
            bag = bag_of(room.model, case)
            seconds += time.process_time() - began
            causes |= {str(limit.cause) for limit in bag.limits}
            if bag.page is not None and len(case.truths) == 1:
                page_read = (bag.page.permute(1, 2, 0) * 255).round().numpy()
                whole += bool((page_read == case.truths[0].page).all())
            bags.append(counts_of(room.model, case, bag))
    except AuditError as error:
        return f"| {kind} | {str(error).split(':')[0]} |"
    shown = decide([{name: lower_share(each[name]) for name in each} for each in bags], BUDGET)
    cells = [kind]
    for measure in (ANY_ORDER, ALL_BOXES):
        right, wanted, named = np.sum([each[measure][0] for each in bags], axis=0).tolist()
        cells += [f"{right} of {wanted}", str(named - right)]
    level = shown.level if shown else "–"
    right, wanted, named = np.sum([each[WORDS][0] for each in bags], axis=0).tolist() if WORDS in bags[0] else (0, 0, 0)
    cells += [f"{right} of {wanted}", str(named - right), f"{whole} of {pages}", level]
    cells += [", ".join(sorted(causes)) or "–", f"{seconds / pages:.1f}"]
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    torch.manual_seed(0)
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 3, *sys.argv[2:])
