"""What LayoutLMv3 clients give away that share nothing of the embeddings:
python -m tests.bench.inversion_matrices [PAGES [KIND]].

The kinds of update of inversion_updates, each without its embeddings; columns are those of that table.
"""

from __future__ import annotations

import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import torch

from pfl_audit.attacks.inversion.context import Case
from pfl_audit.models.open import open_gradient_model
from tests.attacks.inversion import updates
from tests.attacks.inversion.batch_models import save_model
from tests.attacks.inversion.conftest import save_reader
from tests.attacks.inversion.room import Room
from tests.attacks.inversion.template.drawn import form
from tests.bench.inversion_updates import Make, kinds, row

KINDS = (
    "one gradient",
    "bfloat16",
    "float16",
    "int8, a scale for each row",
    "NF4",
    "noise of 1e-4 an entry",
    "noise of 1e-2 an entry",
    "SGD, rate 1e-3, 1 step",
    "SGD, rate 1e-3, 5 steps",
    "SGD, rate 1e-3, 20 steps",
    "AdamW, rate 1e-4, 1 step",
    "dropout of 0.1",
    "batch of 2",
    "control: another page of the form",
    "control: a page of another form",
    "control: another page, another model",
    "control: noise alone",
)


def main(pages: int, chosen: str = "", width: str = "") -> None:
    """Print the table."""
    with tempfile.TemporaryDirectory() as folder:
        path = str(save_model(Path(folder), int(width), picture=224) if width else save_reader(Path(folder), "v3")[0])
        room = Room(open_gradient_model(path, "cpu"), (form(), form(("Sum:", "Place:", "Who:"))))
        for name in KINDS:
            if chosen in name:
                print(row(room, name, frozen(kinds()[name]), pages), flush=True)


def frozen(make: Make) -> Make:
    """The same update without its embeddings."""

    def without(room: Room, page: int) -> Case:
        case = make(room, page)
        return replace(case, seen=replace(case.seen, gradient=updates.frozen(case.seen.gradient, "mbed")))

    return without


if __name__ == "__main__":
    torch.manual_seed(0)
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5, *sys.argv[2:])
