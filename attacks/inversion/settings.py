"""Settings of gradient inversion."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from pfl_audit.core.settings import Flag, Settings

Start = Literal["template", "noise"]
"""Initial pixels of a search."""
Layers = Literal["all", "pre-fusion", "post-fusion"]
"""Layers whose gradients are matched; ``pre-fusion`` are the layers that see the page alone."""
Match = Literal["layered", "relative", "euclidean", "cosine", "april"]
"""Distance between gradients; see ``matching.distance``."""
Scheduler = Literal["decay", "constant", "delayed"]
"""Schedule of the priors' weight; see ``priors.weight_at``."""
Search = Literal["adam", "signed-adam", "l-bfgs"]
"""The optimiser; signed Adam sees only the signs of the gradient with respect to the pixels."""
Known = Literal["recovered", "both", "question", "answer", "none", "characters"]
"""What the observer knows of question and answer."""


_OCR = "Reading"


class InversionSettings(Settings):
    """How to search, and what the observer knows.

    The weights of the priors have the ratios of the paper (GI-DQA, section 4.1: 0.1, 0.01, 0.1); their size, on means
    over pixels, was chosen on a form that is none of the embedded twelve.
    """

    iterations: int = Field(default=800, ge=1, description="Gradients of the model a document, at most.")
    layers: Layers = Field(default="all", description="Layers whose gradients are matched.")
    alpha_txt: Annotated[float, Flag("--prior-txt")] = Field(
        default=0.03, ge=0, description="Weight of the Laplacian text prior."
    )
    alpha_gau: Annotated[float, Flag("--prior-gau")] = Field(
        default=0.003, ge=0, description="Weight of the Gaussian prior."
    )
    alpha_tv: Annotated[float, Flag("--prior-tv")] = Field(
        default=0.03, ge=0, description="Weight of spatial total variation."
    )
    alpha_tvc: Annotated[float | None, Flag(hidden=True)] = Field(
        default=None, ge=0, description="Weight of channel variation; alpha_tv if none is given."
    )
    scheduler: Scheduler = Field(default="decay", description="Schedule of the weights of the priors.")
    known: Known = Field(
        default="recovered",
        description="What the observer has of question and answer: recovered from the gradient, given (for "
        "comparison), or random characters in their places.",
    )
    init: Annotated[Start | None, Flag(default="as the method has it")] = Field(
        default=None, description="Image that a search starts from."
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
