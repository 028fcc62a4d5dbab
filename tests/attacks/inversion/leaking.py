"""A tiny Donut that leaks by construction, forms that fit on its page, and clients who fill them in."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from PIL import Image

from pfl_audit.attacks.inversion.clients import share
from pfl_audit.attacks.inversion.context import Case, Observation, Truth
from pfl_audit.attacks.inversion.template.fill import fill
from pfl_audit.attacks.inversion.template.template import Template, TemplateField
from pfl_audit.models.donut.gradients import DonutGradients
from pfl_audit.models.donut.small import SmallSize, new_donut, save_donut, train_tokenizer
from pfl_audit.models.donut.tokenizer import DonutTokenizer
from pfl_audit.models.samples import Sample

SIDE = 64
SIZE = SmallSize(
    height=SIDE, width=SIDE, patch=16, embed=256, depths=(1,), heads=(8,), window=4, mlp=1.0, d_model=32, layers=1,
    decoder_heads=2, ffn=32, longest=64, spread=0.1, sharpness=8.0,
)  # fmt: skip
"""One window over the whole page, wide patches, sharp attention; as ``fixtures.reading.SIZE``."""
QUESTION = "What is the name?"
NAMES = ("Rosa 12", "Teo 0475", "Ada 93")
TEXTS = (QUESTION, "What is written in field 1?", "What is the date?", *NAMES, "$ 12.50", "01/02/2003")


def save_leaking(folder: Path) -> Path:
    """A checkpoint of SIZE with random weights."""
    folder.mkdir(parents=True, exist_ok=True)
    train_tokenizer([*TEXTS, *"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"], folder, 120)
    save_donut(new_donut(SIZE, DonutTokenizer.open(folder).size, seed=1), folder, folder)
    return folder


def small_form() -> Template:
    """Some print above a field, and some below."""
    pixels = np.full((SIDE, SIDE, 3), 255, np.uint8)
    pixels[4:12, 5:40:2] = 60
    pixels[50:56, 10:60:3] = 90
    return Template(pixels, (TemplateField("field-1", (4 / SIDE, 20 / SIDE, 62 / SIDE, 40 / SIDE), "Name:"),))


def filled(model: DonutGradients, name: str, seed: int = 0) -> Truth:
    """What a client trains on."""
    page = fill(small_form(), {"field-1": name}, seed)
    text = model.text(Sample(QUESTION, name))
    return Truth(model.see(Image.fromarray(page.image)), text, page.values)


def case_of(model: DonutGradients, *names: str) -> Case:
    """One gradient of one page a name."""
    truths = tuple(filled(model, name, seed) for seed, name in enumerate(names))
    return Case(Observation("document 1", small_form(), share(model, truths), len(names)), truths)


def values_of(case: Case) -> Mapping[str, str]:
    """What the first client wrote."""
    return case.truths[0].values or {}
