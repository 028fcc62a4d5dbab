"""Defences that change what is published of a form, found by entry point; and their templates, written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
from PIL import Image

from pfl_audit.attacks.inversion.clients import Clients
from pfl_audit.attacks.inversion.context import Truth
from pfl_audit.attacks.inversion.gradients import templates_of
from pfl_audit.attacks.inversion.inputs import GradientInputs
from pfl_audit.attacks.inversion.printed import with_print
from pfl_audit.attacks.inversion.template.template import Pixels, Template
from pfl_audit.errors import AuditError, UsageError
from pfl_audit.files import atomic_write, write_json
from pfl_audit.inputs import read_json, sha256_input
from pfl_audit.models.gradient_protocol import GradientModel
from pfl_audit.models.open import open_gradient_model
from pfl_audit.progress import Progress
from pfl_audit.registry import Registry
from pfl_audit.version import __version__

DRAWS = 4
"""Pages that the defender fills in, each with a question of its own."""


@dataclass(frozen=True, eq=False)
class Order:
    """What a defence is to perturb.

    Attributes:
        model: That clients train.
        template: In its own size.
        pages: The template as the defender fills it in, who does not know what clients will write and ask.
        budget: Levels of 255 that a pixel may change by.
        steps: How long to search, where there is a search.
        seed: Of everything drawn.
        progress: Shows the steps.
    """

    model: GradientModel
    template: Template
    pages: Sequence[Truth]
    budget: int
    steps: int
    seed: int
    progress: Progress


class Defence(Protocol):
    """A way to perturb a template before it is published."""

    @property
    def name(self) -> str:
        """That of its entry point."""
        ...

    def perturb(self, order: Order) -> Pixels:
        """What is published instead of a template: uint8 (height, width, 3), of its size."""
        ...


@dataclass(frozen=True)
class Published:
    """A perturbed template, written.

    Attributes:
        strategy: Who perturbed it.
        budget: Levels of 255 that its pixels differ by at most.
        template: Lossless picture.
        difference: Picture of what changed: grey where nothing did, black and white at the budget.
    """

    strategy: str
    budget: int
    template: Path
    difference: Path

    @property
    def name(self) -> str:
        """Such as ``pgd-8``."""
        return f"{self.strategy}-{self.budget}"

    @property
    def title(self) -> str:
        """For people."""
        return f"Perturbed template: {self.strategy}, {self.budget}/255"


DEFENCES: Registry[Defence] = Registry("pfl_audit.defences", "defence", ("name", "perturb"))


def protect(
    inputs: GradientInputs,
    checkpoint: str,
    strategies: Sequence[str],
    budgets: Sequence[int],
    steps: int,
    out: Path,
    seed: int,
    device: str,
    progress: Progress,
) -> list[Published]:
    """Write a perturbed template for each strategy and budget; one that was made with the same settings is kept.

    Args:
        inputs: With the picture of the empty form, and its fields.
        checkpoint: Folder of the model that clients train.
        budgets: Levels of 255 that a pixel may change by.
        steps: As of ``Order``.
        out: Folder of the templates.

    Raises:
        UsageError: A strategy that is not installed, or no field that can be used.
        NotAuditableError: The model's family takes no gradients, or no blank box was found.
        AuditError: The template is a folder, it or the model cannot be opened, or gradients are no finite numbers.
    """
    defences = DEFENCES.installed()
    for name in strategies:
        if name not in defences:
            raise UsageError(f"there is no strategy '{name}'", f"Choose among: {', '.join(defences)}")
    if inputs.template is not None and inputs.template.is_dir():
        raise AuditError(f"{inputs.template} is a folder, and one form is perturbed", "Name its template.png")
    (template,) = templates_of(inputs)
    model = open_gradient_model(checkpoint, device)
    template = with_print(template) if model.reads else template
    clients = Clients(model, (template,), seed, None, progress)
    pages = [clients.page("defence", number) for number in range(DRAWS)]
    published = []
    for strategy in dict.fromkeys(strategies):
        for budget in dict.fromkeys(budgets):
            paths = (out / f"{kind}-{strategy}-{budget}.png" for kind in ("template", "difference"))
            one = Published(strategy, budget, *paths)
            settings = {
                "version": __version__,
                "template": template.digest,
                "model": model.fingerprint,
                "strategy": strategy,
                "budget": budget,
                "steps": steps,
                "seed": seed,
            }
            if not _made(one, settings):
                order = Order(model, template, pages, budget, steps, seed, progress)
                _write(one, settings, template, defences[strategy].perturb(order))
            published.append(one)
    return published


def difference(clean: Pixels, perturbed: Pixels, budget: int) -> Pixels:
    """What changed, amplified: grey where nothing did, black and white where all of the budget is used.

    Args:
        clean: uint8 (height, width, 3).
        perturbed: The same shape.
        budget: Levels of 255.
    """
    change = (perturbed.astype(np.float32) - clean) / budget
    return np.asarray((127.5 * (1 + change)).round().clip(0, 255), dtype=np.uint8)


def _beside(one: Published) -> Path:
    return one.template.with_suffix(".json")


def _made(one: Published, settings: Mapping[str, object]) -> bool:
    """Whether both pictures are there, as these settings made them; what cannot be read is made again."""
    try:
        return bool(read_json(_beside(one)) == _record(one, settings))
    except (AuditError, OSError):
        return False


def _write(one: Published, settings: Mapping[str, object], template: Template, pixels: Pixels) -> None:
    for path, picture in ((one.template, pixels), (one.difference, difference(template.pixels, pixels, one.budget))):
        with atomic_write(path, private=False) as file:
            Image.fromarray(picture).save(file, "PNG")
    write_json(_beside(one), _record(one, settings), private=False)


def _record(one: Published, settings: Mapping[str, object]) -> dict[str, object]:
    digests = {path.name: sha256_input(path) for path in (one.template, one.difference)}
    return {"settings": settings, "sha256": digests}
