"""How often the evidence of something else is a leak: python -m tests.bench.inversion_nulls [PAGES].

Each audit is of one page, with the closed forms with positions, on the small LayoutLMv3 with random weights. One row
for each control of inversion_updates, as Markdown: audits by level.
"""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from pathlib import Path

import torch

from pfl_audit.models.open import open_gradient_model
from tests.attacks.inversion.room import Room
from tests.attacks.inversion.template.drawn import form
from tests.bench.inversion_updates import MODELS, OTHER_LABELS, kinds


def main(pages: int) -> None:
    """Print the table."""
    with tempfile.TemporaryDirectory() as folder:
        model = open_gradient_model(str(MODELS["LayoutLMv3 (small, random weights)"](Path(folder))), "cpu")
    room = Room(model, (form(), form(OTHER_LABELS)))
    print("| evidence | audits | leak | weak | unresolved |\n| --- | --- | --- | --- | --- |")
    for name, make in kinds().items():
        if name.startswith("control"):
            levels = Counter(str(room.decision(make(room, page)).level) for page in range(pages))
            counts = [str(levels[level]) for level in ("leak", "weak", "unresolved")]
            print(f"| {' | '.join([name, str(pages), *counts])} |", flush=True)


if __name__ == "__main__":
    torch.manual_seed(0)
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 60)
