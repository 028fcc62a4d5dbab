"""Settings of gradient inversion."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from pfl_audit.core.settings import Flag, PaperValue, Settings

Start = Literal["template", "noise"]
"""Initial pixels of a search."""
Layers = Literal["all", "pre-fusion", "post-fusion"]
"""Layers whose gradients are matched; ``pre-fusion`` are the layers that see the page alone."""
Match = Literal["layered", "relative", "euclidean", "cosine", "april"]
"""Distance between gradients; see ``matching.distance``."""
Scheduler = Literal["decay", "constant", "delayed"]
"""Schedule of the priors' weight; see ``priors.weight_at``."""
Variation = Literal["mean", "sum"]
Search = Literal["adam", "signed-adam", "l-bfgs"]
"""The optimiser; signed Adam sees only the signs of the gradient with respect to the pixels."""
Known = Literal["recovered", "both", "question", "answer", "none", "characters"]
"""What the observer knows of question and answer."""


_OCR = "Reading"
_SECTION = "section 4.1"
_RATE = 2.0 / 255


class InversionSettings(Settings):
    """How to search, and what the observer knows.

    The weights of the priors have the ratios of the paper (GI-DQA, section 4.1: 0.1, 0.01, 0.1); their size, on means
    over pixels, was chosen on a form that is none of the embedded twelve.
    """

    iterations: Annotated[int, PaperValue(5000, _SECTION)] = Field(
        default=800, ge=1, description="Gradients of the model a document, at most."
    )
    layers: Layers = Field(default="all", description="Layers whose gradients are matched.")
    alpha_txt: Annotated[float, Flag("--prior-txt"), PaperValue(0.1, _SECTION)] = Field(
        default=0.03, ge=0, description="Weight of the Laplacian text prior."
    )
    alpha_gau: Annotated[float, Flag("--prior-gau"), PaperValue(0.01, _SECTION)] = Field(
        default=0.003, ge=0, description="Weight of the Gaussian prior."
    )
    alpha_tv: Annotated[float, Flag("--prior-tv"), PaperValue(0.1, _SECTION)] = Field(
        default=0.03, ge=0, description="Weight of spatial total variation."
    )
    alpha_tvc: Annotated[float | None, Flag(hidden=True)] = Field(
        default=None, ge=0, description="Weight of channel variation; alpha_tv if none is given."
    )
    variation: Annotated[Variation, Flag(hidden=True), PaperValue("sum", "equations 9 and 10")] = Field(
        default="mean",
        description="Total variation of GI-DQA: means over pixels, or sums, with red and green counted twice and blue "
        "against green never.",
    )
    scheduler: Scheduler = Field(default="decay", description="Schedule of the weights of the priors.")
    known: Known = Field(
        default="recovered",
        description="What the observer has of question and answer: recovered from the gradient, given (for "
        "comparison), or random characters in their places.",
    )
    init: Annotated[Start | None, Flag(default="as the method has it"), PaperValue("noise", _SECTION)] = Field(
        default=None, description="Image that a search starts from."
    )
    rate: Annotated[float | None, Flag(hidden=True), PaperValue(_RATE, f"{_SECTION}: 2.0 on 0 to 255")] = Field(
        default=None,
        gt=0,
        description="Learning rate of GI-DQA on pixels from 0 to 1; 0.05, falling to a tenth, if none is given.",
    )
    rate_decay: Annotated[float, Flag(hidden=True), PaperValue(0.999, _SECTION)] = Field(
        default=1.0, gt=0, le=1, description="Factor on a given learning rate at every iteration."
    )
    scaled: Annotated[bool, Flag(hidden=True), PaperValue(False, "equation 5")] = Field(
        default=True, description="Bring the gradient of GI-DQA's page to the size of the shared one first."
    )
    early_end: Annotated[bool, Flag(hidden=True), PaperValue(False, _SECTION)] = Field(
        default=True, description="End a search when a tenth of the iterations brings no improvement."
    )
    knowledge: Literal["published", "template"] = Field(
        default="published", description="Whether the other methods have the template."
    )
    ocr: Annotated[Literal["rapidocr", "tesseract", "trocr"], Flag(panel=_OCR)] = Field(
        default="rapidocr", description="OCR engine that reads the reconstructions."
    )
    ocr_weights: Annotated[Path | None, Flag(panel=_OCR)] = Field(
        default=None, description="Folder of TrOCR's weights."
    )
