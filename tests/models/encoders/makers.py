"""Forms and encoders so small that they answer at once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

from pfl_audit.documents.document import Document, as_boxes
from pfl_audit.documents.forms.form import Field, Form
from pfl_audit.documents.images import PageImage
from pfl_audit.models.encoders.checkpoint import LoadedEncoder
from pfl_audit.models.encoders.config import EncoderConfig, VisualConfig
from pfl_audit.models.encoders.network import FormEncoder
from pfl_audit.models.encoders.tokens import FormTokenizer
from pfl_audit.models.encoders.vocabulary import SPECIAL

LABELS = ("amount", "date", "name")
PIECES = [
    "date",
    "total",
    "name",
    ":",
    "/",
    ",",
    ".",
    "12",
    "03",
    "20",
    "##20",
    "##21",
    "1",
    "234",
    "56",
    "##7",
    "eur",
    "smith",
    "anna",
    "##s",
    "jones",
    "thank",
    "you",
    "due",
]
VISUAL = VisualConfig(stem=4, channels=(4, 8), depths=(1, 1), side=32)


def tokenizer() -> FormTokenizer:
    return FormTokenizer([*SPECIAL, "[unused0]", *PIECES])


def form(name: str = "d_1", image: Path | None = None, extra: int = 0) -> Form:
    """A page whose words are: name : anna smiths date 12/03/2020 total 1,2347 eur (and ``extra`` more)."""
    words = ("Name", ":", "Anna", "Smiths", "Date", "12/03/2020", "total", "1,2347", "EUR", *["thank"] * extra)
    across = np.linspace(0.05, 0.9, len(words))
    boxes = np.stack([across, 0.1 + 0.3 * across, across + 0.06, 0.15 + 0.3 * across], axis=1)
    fields = (
        Field("a", "name", 0, 2),
        Field("b", "name", 2, 4),
        Field("c", "date", 5, 6),
        Field("d", "amount", 7, 9),
    )
    page = Document(name, "p", words, as_boxes(boxes, len(words)), PageImage(image) if image else None)
    return Form(page, fields, (("a", "b"),))


def page_file(folder: Path, seed: int = 0) -> Path:
    """A page of noise, 60 x 80 pixels."""
    path = folder / f"page{seed}.png"
    Image.fromarray(np.random.default_rng(seed).integers(0, 256, (80, 60, 3), dtype=np.uint8)).save(path)
    return path


def config(backbone: str, task: str, modality: str = "unimodal", **more: Any) -> EncoderConfig:
    values: dict[str, Any] = {
        "labels": LABELS if task.startswith("ee") else (),
        "max_tokens": 40,
        "hidden": 64 if backbone == "bros" else 16,
        "layers": 2,
        "heads": 2,
        "intermediate": 24,
        "vocabulary": len(tokenizer().vocabulary),
        "positions": 48,
        "visual": VISUAL if modality == "bimodal" else None,
        **more,
    }
    return EncoderConfig(backbone, task, modality, **values)  # type: ignore[arg-type]


def encoder(backbone: str, task: str, modality: str = "unimodal", seed: int = 0, **more: Any) -> LoadedEncoder:
    """With weights ten times as large as new ones, so that everything has a say."""
    made = config(backbone, task, modality, **more)
    torch.manual_seed(seed)
    network = FormEncoder(made).eval()
    with torch.no_grad():
        for name, tensor in network.named_parameters():
            if tensor.dim() > 1 and "visual.backbone" not in name:
                tensor.mul_(10)
            elif name.endswith("bias"):
                tensor.normal_()
    return LoadedEncoder(network, tokenizer(), made)
