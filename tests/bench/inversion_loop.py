"""Iterations a second against a plain loop, in one run: python -m tests.bench.inversion_loop.

The model has the shape of the one under attack (``fixtures.reading``) and random weights; the objective is GI-DQA's
with its priors, under Adam. The plain loop is what one would write first: all of the page is a leaf that a mask is laid
on, gradients of all parameters through transformers' own modules, distances one by one. Both go the same way.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cosine_similarity, mse_loss

from fixtures.reading import SIZE
from pfl_audit.attacks.inversion import priors
from pfl_audit.attacks.inversion.canvas import Canvas
from pfl_audit.attacks.inversion.clients import Clients, place_template, share
from pfl_audit.attacks.inversion.context import Observation, Truth
from pfl_audit.attacks.inversion.matching import speaking
from pfl_audit.attacks.inversion.methods import METHODS
from pfl_audit.attacks.inversion.reconstruction import objective_of
from pfl_audit.attacks.inversion.settings import InversionSettings
from pfl_audit.attacks.inversion.template.synthetic import TemplateRecipe, make_templates, open_templates
from pfl_audit.attacks.inversion.template.template import Template
from pfl_audit.attacks.inversion.template.values import draw_values, question_for
from pfl_audit.models.donut.checkpoint import load_donut
from pfl_audit.models.donut.gradients import DonutGradients
from pfl_audit.models.donut.small import new_donut, save_donut, train_tokenizer
from pfl_audit.models.donut.tokenizer import DonutTokenizer
from pfl_audit.progress import Silent

STEPS = 12
RATE = METHODS["gi_dqa"].rate
SETTINGS = InversionSettings(iterations=5000)
Step = Callable[[], float]


def main() -> None:
    """Take turns, print the ratio, and refuse two ways that part."""
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)  # as the search does; both ways gain
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        template = checkpoint(folder)
        model = DonutGradients(folder)
        truth = Clients(model, [template], 0, None, Silent()).page("document", 0)
        seen = Observation("document 1", place_template(model, template, Silent()), share(model, [truth]))
        ways = {"plain loop": plainly(folder, seen, truth), "pfl-audit": ours(model, seen, truth)}
    spent: dict[str, list[float]] = {name: [] for name in ways}
    values: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(STEPS):
        for name, step in ways.items():
            before = time.process_time()
            values[name].append(step())
            spent[name].append(time.process_time() - before)
    plain, own = (float(np.median(spent[name][1:])) for name in ways)
    apart = max(abs(one - other) / one for one, other in zip(*values.values(), strict=True))
    print(f"plain loop {1 / plain:5.1f} iterations a second of one processor, pfl-audit {1 / own:5.1f}: "
          f"{plain / own:.2f} times; objectives at most {apart:.1e} apart over {STEPS} steps")  # fmt: skip
    assert apart < 1e-2, "the two ways part"


def checkpoint(folder: Path) -> Template:
    """A checkpoint in ``folder``, and the template that is attacked."""
    make_templates(TemplateRecipe(templates=1, seed=77), folder / "forms", Silent())
    (template,) = open_templates(folder / "forms")
    texts = [text for seed in range(40) for one in template.fields
             for text in question_for(one, draw_values(template, seed))]  # fmt: skip
    train_tokenizer(texts, folder, 400)
    save_donut(new_donut(SIZE, DonutTokenizer.open(folder).size, seed=5), folder, folder)
    return template


def ours(model: DonutGradients, seen: Observation, truth: Truth) -> Step:
    """An iteration as the attack takes it."""
    method, canvas = METHODS["gi_dqa"], Canvas(seen.template)
    objective = objective_of(model, seen, [truth.text], method, SETTINGS, canvas, speaking(seen.gradient))
    sought = canvas.start("template", torch.Generator()).requires_grad_(True)
    adam = torch.optim.Adam([sought], lr=RATE)

    def step() -> float:
        value = objective(sought, 0)
        (sought.grad,) = torch.autograd.grad(value, sought)
        adam.step()
        return value.item()

    return step


def plainly(folder: Path, seen: Observation, truth: Truth) -> Step:
    """An iteration as one would write it first."""
    loaded = load_donut(folder)
    network = loaded.network.eval()
    mean, std = (torch.tensor(some).view(3, 1, 1) for some in (loaded.pixels.mean, loaded.pixels.std))
    ids, labels = truth.text["decoder_input_ids"][None], truth.text["labels"][None]
    known = torch.from_numpy(seen.template.page).permute(2, 0, 1)[None]
    mask = torch.from_numpy(seen.template.mask())
    page = known.clone().requires_grad_(True)
    adam = torch.optim.Adam([page], lr=RATE)
    told = speaking(seen.gradient)

    def step() -> float:
        adam.zero_grad()
        pages = page * mask + known * ~mask
        loss = network(pixel_values=(pages - mean) / std, decoder_input_ids=ids, labels=labels).loss
        parameters = dict(network.named_parameters())
        parts = torch.autograd.grad(loss, list(parameters.values()), create_graph=True, allow_unused=True)
        value = _prior(pages, mask)
        for name, part in zip(parameters, parts, strict=True):
            if part is not None and name in told:  # the cosine of what is zero but for rounding would be noise
                target = seen.gradient[name]
                value = value + mse_loss(part, target)
                value = value + 1 - cosine_similarity(part.flatten(), target.flatten(), dim=0)
        value.backward()
        adam.step()
        return value.item()

    return step


def _prior(pages: Tensor, mask: Tensor) -> Tensor:
    return (
        SETTINGS.alpha_txt * priors.visual_text(pages, mask)
        + SETTINGS.alpha_gau * priors.gaussian(pages, mask)
        + SETTINGS.alpha_tv * (priors.spatial_variation(pages, mask) + priors.channel_variation(pages, mask))
    )


if __name__ == "__main__":
    main()
