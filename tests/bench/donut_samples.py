"""Separation of Donut batches by how far the model is trained: python -m tests.bench.donut_samples CASES [STEPS ...].

A Donut with random weights (four decoder layers, 256 wide, pages of 64 x 64), trained for STEPS steps of AdamW on
batches of eight other fillings of two drawn forms. One row for each number of steps, as Markdown: samples of batches
of two that came back whole, and false ones.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

import torch

from pfl_audit.attacks.inversion.bag import bag_of
from pfl_audit.attacks.inversion.clients import share
from pfl_audit.models.donut.small import SmallSize, new_donut, save_donut
from pfl_audit.models.donut.tokenizer import DonutTokenizer
from pfl_audit.models.open import open_gradient_model
from tests.attacks.inversion.room import Room
from tests.attacks.inversion.template.drawn import form

TOKENIZER = Path(__file__).parents[2] / "fixtures/donut"
SIZE = SmallSize(layers=4, d_model=256, height=64, width=64)
FIRST_OTHER = 5000
"""Number of the first page that is trained on."""


def main(cases: int, steps: list[int]) -> None:
    """Print the table."""
    with tempfile.TemporaryDirectory() as folder:
        save_donut(new_donut(SIZE, DonutTokenizer.open(TOKENIZER).size, seed=1), TOKENIZER, Path(folder))
        model = open_gradient_model(folder, "cpu")
    decoder, room = model.text_decoder(), Room(model, (form(), form(("Sum:", "Place:", "Who:"))))
    assert decoder is not None
    optimizer = torch.optim.AdamW(model.network.parameters(), lr=5e-4)
    print("| steps | whole samples | false | s a batch |\n| --- | --- | --- | --- |")
    trained = 0
    for wanted in steps:
        for step in range(trained, wanted):
            gradient = share(model, [room.clients.page("document", FIRST_OTHER + 8 * step + at) for at in range(8)])
            for name, part in model.network.named_parameters():
                part.grad = gradient.get(name)
            optimizer.step()
        trained = max(trained, wanted)
        right = false = total = 0
        began = time.process_time()
        for number in range(cases):
            case = room.case(number, batch=2)
            own = {tuple(decoder.ids(truth.text).tolist()) for truth in case.truths}
            found = set(bag_of(model, case).pages)
            right, false, total = right + len(found & own), false + len(found - own), total + len(own)
        seconds = (time.process_time() - began) / cases
        print(f"| {trained} | {right} of {total} | {false} | {seconds:.1f} |", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), [int(step) for step in sys.argv[2:]] or [0])
