"""A search with and without fused second derivatives, in one run: python -m tests.bench.fused_attention.

The model, the page and the objective are those of ``tests.bench.inversion_loop``; the two searches take turns.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import numpy as np
import torch

from pfl_audit.attacks.inversion.clients import Clients, place_template, share
from pfl_audit.attacks.inversion.context import Observation
from pfl_audit.models.donut.gradients import DonutGradients
from pfl_audit.progress import Silent
from tests.bench.inversion_loop import STEPS, Step, checkpoint, ours


def main() -> None:
    """Print the ratio, and refuse searches that differ."""
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)  # as the search does; both gain
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        template = checkpoint(folder)
        searches: dict[str, Step] = {}
        for name, fused in (("plain autograd", False), ("fused", True)):
            model = DonutGradients(folder, fused=fused)
            truth = Clients(model, [template], 0, None, Silent()).page("document", 0)
            seen = Observation("document 1", place_template(model, template, Silent()), share(model, [truth]))
            searches[name] = ours(model, seen, truth)
    spent: dict[str, list[float]] = {name: [] for name in searches}
    values: dict[str, list[float]] = {name: [] for name in searches}
    for _ in range(STEPS):
        for name, step in searches.items():
            before = time.process_time()
            values[name].append(step())
            spent[name].append(time.process_time() - before)
    plain, fast = (float(np.median(spent[name][1:])) for name in searches)
    apart = max(abs(one - other) / one for one, other in zip(*values.values(), strict=True))
    print(f"an iteration takes {plain:.3f} s of one processor with plain autograd, {fast:.3f} s fused: "
          f"{plain / fast:.2f} times; objectives at most {apart:.1e} apart over {STEPS} steps")  # fmt: skip
    assert apart < 1e-2, "the searches differ"


if __name__ == "__main__":
    main()
