"""The closed form for LayoutLM on every observation, and what it got right."""

from __future__ import annotations

from dataclasses import dataclass
from time import monotonic
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from pfl_audit.attacks.inversion.analytic.recovery import Recovery, recover
from pfl_audit.attacks.inversion.reading import ReadingEngine
from pfl_audit.attacks.inversion.scoring import Scored, score
from PIL import Image

from pfl_audit.audit.attack import GradientContext
from pfl_audit.audit.gradient_case import Case
from pfl_audit.errors import NotAuditableError


@dataclass(frozen=True, eq=False)
class Solved:
    """What the closed form gave of one observation.

    Attributes:
        scored: Pictures and words; None where no pixels came back.
        name: Of the observation.
        tokens: That went in.
        right: Of these, recovered in their places.
        boxes: Of these, with all four edges.
        commonest: How often the commonest of these tokens stands among them: what a constant guess gets.
        sure: Tokens that were said to be beyond doubt.
        noise: That was found on every entry.
        limits: Why something is missing.
        seconds: That it took.
    """

    scored: Scored | None
    name: str
    tokens: int
    right: int
    boxes: int
    commonest: int
    sure: int
    noise: float
    limits: tuple[str, ...]
    seconds: float


def attack(context: GradientContext, engine: ReadingEngine) -> list[Solved]:
    """Solve every observation.

    Raises:
        NotAuditableError: Another family, or no truth to compare with.
        AuditError: The gradient holds nothing of the embeddings.
    """
    model: Any = context.model
    if not model.family.startswith("layoutlm"):
        raise NotAuditableError(
            f"a {model.family} has no absolute positions in its encoder, which the closed form needs",
            "Use --method lbfgs or --method gi-dqa",
        )
    rows = int(model.config.network.vocab_size)
    goes_on = torch.tensor(model.inputs.tokenizer.goes_on(rows))
    found = []
    with context.progress.task("closed form", len(context.cases)) as task:
        for case in context.cases:
            began = monotonic()
            page = torch.from_numpy(case.seen.template.page).permute(2, 0, 1)
            settings = model.sight if model.config.sees else None
            got = recover(case.seen.gradient, model.config.network, settings, page, goes_on)
            seconds = monotonic() - began
            if got.pixels is not None:
                image = _image(got.pixels)
                context.evidence.keep_page(f"analytic-{case.seen.name.replace(' ', '-')}", Image.fromarray(image))
            if case.truths:
                found.append(_compare(context, case, got, engine, seconds))
            task.advance()
    if not found:
        raise NotAuditableError(
            "without the page that the client trained on nothing can be scored; what came back lies in private/",
            "Give --document, --question and --answer",
        )
    return found


def _compare(context: GradientContext, case: Case, got: Recovery, engine: ReadingEngine, seconds: float) -> Solved:
    truth = case.truths[0].text
    ids, boxes = truth["input_ids"], truth["bbox"]
    count = min(len(ids), len(got.tokens))
    rng = context.rng("inversion", "guesses", case.seen.name)
    return Solved(
        scored=score(case, [_image(got.pixels)], engine, rng) if got.pixels is not None else None,
        name=case.seen.name,
        tokens=len(ids),
        right=int((ids[:count] == got.tokens[:count]).sum()),
        boxes=int((boxes[:count] == got.boxes[:count]).all(dim=1).sum()),
        commonest=int(torch.bincount(ids).max()),
        sure=int(got.sure[:, 0].sum()),
        noise=got.noise,
        limits=tuple(limit.words for limit in got.limits),
        seconds=seconds,
    )


def _image(pixels: torch.Tensor) -> NDArray[np.uint8]:
    return np.asarray((pixels.permute(1, 2, 0).clamp(0, 1) * 255).round().numpy(), dtype=np.uint8)
