"""Simulated clients that fill in a form, train on it once and share the gradient."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import ceil, floor
from typing import Literal

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from pfl_audit.attacks.inversion.context import Truth
from pfl_audit.attacks.inversion.template.fill import FilledPage, fill, fitting
from pfl_audit.attacks.inversion.template.template import Template
from pfl_audit.attacks.inversion.template.values import draw_values, question_for
from pfl_audit.documents.document import as_boxes
from pfl_audit.documents.images import Box
from pfl_audit.errors import AuditError, NotAuditableError, UsageError
from pfl_audit.models.gradient_protocol import GradientModel, gradient_of
from pfl_audit.models.samples import Sample, Text
from pfl_audit.progress import Progress

Purpose = Literal["document", "batch", "training", "noise", "defence", "filling"]
_PURPOSES: tuple[Purpose, ...] = ("document", "batch", "training", "noise", "defence", "filling")
LEAST_FIELD = 2
"""Pixels of a field's shorter side on what the network sees, below which nothing is written in it."""
_SMALL_PRINT = 1.5
"""Times that a page is scaled down from which on print may be too small to be read."""
_EDGE = 1e-6


class Clients:
    """Clients who hold filled pages of some templates.

    Args:
        templates: Empty forms in their own size; pages go round them.
        seed: Seed of values, handwriting, questions and noise.
        asked: Question and answer of every page, or None to ask about a random field.
    """

    def __init__(
        self,
        model: GradientModel,
        templates: Sequence[Template],
        seed: int,
        asked: tuple[str, str] | None,
        progress: Progress,
    ) -> None:
        self._model = model
        self._templates = templates
        self._seed = seed
        self._asked = asked
        self._progress = progress
        self._told: set[int] = set()

    def page(self, purpose: Purpose, number: int) -> Truth:
        """A page with values of its own.

        Args:
            purpose: What for; pages of one purpose are drawn apart from those of others.
            number: Of the page; decides its template too.

        Raises:
            UsageError: No field of the template can be written in.
            NotAuditableError: None of the answers is on the page, and the model can only point to it.
        """
        template, seed = self._templates[number % len(self._templates)], self._own_seed(purpose, number)
        filled = self.filled(number, purpose)
        text, question = self._text(template, filled, np.random.default_rng([seed, 1]), self._asked)
        return Truth(self._model.see(Image.fromarray(filled.image)), text, filled.values, question)

    def filled(self, number: int, purpose: Purpose = "document") -> FilledPage:
        """The form of a page with the values of its own, in its own size."""
        at = number % len(self._templates)
        seed = self._own_seed(purpose, number)
        return self._fill(at, self._templates[at], draw_values(self._templates[at], seed), seed)

    def filling(self, pages: Sequence[tuple[int, str]], number: int) -> tuple[Text, ...]:
        """Texts of pages with other values in the same forms, each with the same question where a field answers it.

        Args:
            pages: Number of each page, which decides its form, and its question.
            number: Of the filling; others have other values.

        Raises:
            UsageError: As ``page``.
            NotAuditableError: As ``page``.
        """
        return tuple(self._refilled(page, at, question, number)[0] for at, (page, question) in enumerate(pages))

    def others(self, pages: Sequence[tuple[int, str]], number: int) -> tuple[Truth, ...]:
        """The same fillings, as whole pages."""
        made = (self._refilled(page, at, question, number) for at, (page, question) in enumerate(pages))
        return tuple(Truth(self._model.see(Image.fromarray(page.image)), text, page.values) for text, page in made)

    def values(self, pages: Sequence[tuple[int, str]], number: int) -> tuple[dict[str, str], ...]:
        """The values of the same fillings, by field; fields too small for theirs stay empty, as on the pages."""
        made = (self._of_filling(page, at, number) for at, (page, _) in enumerate(pages))
        return tuple(fitting(template, draw_values(template, seed), seed) for template, seed in made)

    def _of_filling(self, page: int, at: int, number: int) -> tuple[Template, int]:
        """Form and seed of a filling."""
        seeds = np.random.SeedSequence([self._own_seed("filling", page), at, number])
        return self._templates[page % len(self._templates)], int(seeds.generate_state(1)[0])

    def _refilled(self, page: int, at: int, question: str, number: int) -> tuple[Text, FilledPage]:
        template, seed = self._of_filling(page, at, number)
        filled = self._fill(page % len(self._templates), template, draw_values(template, seed), seed)
        pairs = [question_for(field, filled.values) for field in template.fields if field.id in filled.values]
        same = [pair for pair in pairs if pair[0] == question]
        asked = same[0] if same else None
        return self._text(template, filled, np.random.default_rng([seed, 1]), asked)[0], filled

    def noisy(self, gradient: Mapping[str, Tensor], sigma: float, number: int) -> dict[str, Tensor]:
        """A gradient with noise N(0, sigma^2) on every entry, as a client adds for local differential privacy."""
        if not sigma:
            return dict(gradient)
        rng = torch.Generator().manual_seed(self._own_seed("noise", number))
        return {name: part + sigma * torch.randn(part.shape, generator=rng) for name, part in gradient.items()}

    def train(self, steps: int, rate: float) -> None:
        """Train the model in place: AdamW, one new page a step, without dropout."""
        network = self._model.network
        optimizer = torch.optim.AdamW(network.parameters(), lr=rate)
        with self._progress.task("training", steps) as task:
            for step in range(steps):
                parts = gradient_of(self._model, *batch_of(self._model, [self.page("training", step)]))
                for name, parameter in network.named_parameters():
                    parameter.grad = parts.get(name)
                optimizer.step()
                task.advance()
        optimizer.zero_grad(set_to_none=True)

    def _own_seed(self, purpose: Purpose, number: int) -> int:
        return int(np.random.SeedSequence([self._seed, _PURPOSES.index(purpose), number]).generate_state(1)[0])

    def _fill(self, at: int, template: Template, values: Mapping[str, str], seed: int) -> FilledPage:
        """The form with the values that fit it."""
        fit = fitting(template, values, seed)
        if values and not fit:
            raise UsageError("no field of the template is large enough to be written in", "Give larger boxes")
        if len(fit) < len(values) and at not in self._told:
            self._told.add(at)
            self._progress.say(f"{len(values) - len(fit)} fields are too small for a value and stay empty")
        return fill(template, fit, seed)

    def _text(
        self, template: Template, filled: FilledPage, rng: np.random.Generator, asked: tuple[str, str] | None
    ) -> tuple[Text, str]:
        """The text of the first question, in random order, which the model can be trained with; and the question."""
        written = [field for field in template.fields if field.id in filled.values]
        pairs = [question_for(written[at], filled.values) for at in rng.permutation(len(written))]
        refused: NotAuditableError | None = None
        for question, answer in [asked] if asked else pairs:
            try:
                return self._model.text(Sample(question, answer, filled.words, filled.boxes)), question
            except NotAuditableError as error:
                refused = error
        raise refused or NotAuditableError("nothing is written on a page", "Give larger boxes")


def batch_of(model: GradientModel, truths: Sequence[Truth]) -> tuple[Tensor, list[Text]]:
    """Pixels and texts of pages, as the model's loss takes them."""
    device = next(model.network.parameters()).device
    pixels = torch.from_numpy(np.stack([truth.page for truth in truths])).permute(0, 3, 1, 2)
    return pixels.to(device, torch.float32) / 255, [truth.text for truth in truths]


def share(model: GradientModel, truths: Sequence[Truth]) -> dict[str, Tensor]:
    """The gradient that a client computes on its pages: float32 by parameter, the mean over them.

    Raises:
        AuditError: It is not finite.
    """
    found = {
        name: part.detach().float().cpu().contiguous()
        for name, part in gradient_of(model, *batch_of(model, truths)).items()
    }
    if not all(bool(torch.isfinite(part).all()) for part in found.values()):
        raise AuditError("the model computes NaN or infinite gradients", "Check how it was exported")
    return found


def clipped(gradient: Mapping[str, Tensor], norm: float | None) -> dict[str, Tensor]:
    """A gradient scaled down to a norm over all entries, where it is longer."""
    size = norm_of(gradient)
    factor = 1.0 if norm is None or size <= norm else norm / size
    return {name: factor * part for name, part in gradient.items()}


def norm_of(gradient: Mapping[str, Tensor]) -> float:
    """Euclidean norm over all entries."""
    return float(torch.stack([part.double().norm() for part in gradient.values()]).norm()) if gradient else 0.0


def place_template(model: GradientModel, template: Template, progress: Progress) -> Template:
    """An empty form as the network sees it.

    Its fields are widened to whole pixels, so that a field holds all that was written in it.

    Args:
        model: Whose page it is laid on.
        template: In its own size.
        progress: Shows fields that are left out, and print that may be too small to read.

    Raises:
        UsageError: No field is large enough on what the network sees.
    """
    pixels = model.see(Image.fromarray(template.pixels))
    (rows, columns), size = model.page, template.size
    placed = [replace(field, box=_whole(model.place(field.box, size), model.page)) for field in template.fields]
    fields = tuple(
        field
        for field in placed
        if (field.box[2] - field.box[0]) * columns > LEAST_FIELD - _EDGE
        and (field.box[3] - field.box[1]) * rows > LEAST_FIELD - _EDGE
    )
    if not fields:
        raise UsageError(
            f"no field of the template is {LEAST_FIELD} pixels large on the {columns} x {rows} that the model sees",
            "Give a model that sees larger pages, or a template with larger fields",
        )
    if len(fields) < len(placed):
        progress.say(f"{len(placed) - len(fields)} fields left out: the model sees them below {LEAST_FIELD} pixels")
    whole = model.place((0.0, 0.0, 1.0, 1.0), size)
    if size[0] * size[1] > _SMALL_PRINT**2 * _area(whole, model.page):
        progress.say(
            f"a template of {size[0]} x {size[1]} pixels is seen on {columns} x {rows}: print may be too small to read"
        )
    boxes = [model.place((box[0], box[1], box[2], box[3]), size) for box in template.boxes.tolist()]
    return Template(pixels, fields, template.words, as_boxes(boxes, len(boxes)))


def _whole(box: Box, page: tuple[int, int]) -> Box:
    """A box that covers whole pixels, within the page."""
    sides = (page[1], page[0])
    low = [max(0, floor(box[at] * sides[at] + _EDGE)) / sides[at] for at in range(2)]
    high = [min(sides[at], ceil(box[at + 2] * sides[at] - _EDGE)) / sides[at] for at in range(2)]
    return low[0], low[1], high[0], high[1]


def _area(box: Box, page: tuple[int, int]) -> float:
    return (box[2] - box[0]) * page[1] * (box[3] - box[1]) * page[0]
