"""A model of two layers whose gradients can be taken, and an attack that looks at what it is given."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from pfl_audit.attacks.inversion.context import GradientContext
from pfl_audit.attacks.inversion.gradients import observation_key
from pfl_audit.attacks.inversion.inputs import GRADIENT
from pfl_audit.core.attack import CheckSpec
from pfl_audit.core.results import Check
from pfl_audit.core.settings import Settings as Base
from pfl_audit.documents.images import Box
from pfl_audit.errors import NotAuditableError
from pfl_audit.models.samples import Sample, Text


class FakeGradients:
    """Sees pages scaled to ``page``; ``reads`` says whether answers must stand on the page."""

    family = "fake"
    fingerprint = "fake"
    sees_page = True
    fusion = None
    patch_embedding = None

    def __init__(self, page: tuple[int, int] = (160, 200), *, reads: bool = False, seed: int = 0) -> None:
        torch.manual_seed(seed)
        self.page, self.reads = page, reads
        self.samples: list[Sample] = []
        inner = torch.nn.Linear(48, 8)
        self.network = torch.nn.Sequential(torch.nn.AdaptiveAvgPool2d(4), torch.nn.Flatten(), inner).eval()
        self.network.register_parameter("unused", torch.nn.Parameter(torch.ones(3)))

    def describe(self) -> dict[str, Any]:
        return {"family": self.family, "path": "-", "sha256": self.fingerprint, "parameters": 395, "notes": []}

    def text_decoder(self) -> None: ...

    def word_encoder(self) -> None: ...

    def see(self, page: Image.Image) -> NDArray[np.uint8]:
        return np.asarray(page.resize((self.page[1], self.page[0])), dtype=np.uint8)

    def place(self, box: Box, size: tuple[int, int]) -> Box:
        return box

    def text(self, sample: Sample) -> Text:
        if self.reads and sample.answer not in " ".join(sample.words):
            raise NotAuditableError("an answer does not stand on the page", "Ask another question")
        self.samples.append(sample)
        return {"label": torch.tensor(len(sample.answer) % 8)}

    def loss(self, pixels: Tensor, texts: Sequence[Text]) -> Tensor:
        return torch.nn.functional.cross_entropy(self.network(pixels), torch.stack([text["label"] for text in texts]))


class Settings(Base):
    """None."""


class Looking:
    """Counts what it is given, and remembers it by observation."""

    name = "looking"
    subject = "gradients"
    specs = (CheckSpec("looking.at", "Looks", frozenset({GRADIENT})),)
    Settings = Settings

    def __init__(self) -> None:
        self.contexts: list[GradientContext] = []

    def run(self, context: GradientContext, settings: Settings) -> list[Check]:
        self.contexts.append(context)
        for case in context.cases:
            key = observation_key(context.model, case.seen)
            if context.records.get(key) is None:
                context.records.put(key, {"fields": len(case.seen.template.fields)})
        return [self.specs[0].ran(settings={"cases": len(context.cases)})]
