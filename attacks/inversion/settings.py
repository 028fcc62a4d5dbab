"""Settings of gradient inversion."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from pfl_audit.attacks.inversion.kinds import Known, Layers, Scheduler, Start


class InversionSettings(BaseModel):
    """How to search, and what the observer knows.

    The weights of the priors stand to one another as the paper's do (GI-DQA, section 4.1: 0.1, 0.01, 0.1); their size,
    on means over pixels, was chosen on a form that is none of the embedded twelve.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    iterations: int = Field(default=800, ge=1, description="Gradients of the model a document at most")
    layers: Layers = Field(default="all", description="Whose gradients are matched")
    alpha_txt: float = Field(default=0.03, ge=0, description="Weight of the Laplacian text prior")
    alpha_gau: float = Field(default=0.003, ge=0, description="Weight of the Gaussian prior")
    alpha_tv: float = Field(default=0.03, ge=0, description="Weight of spatial total variation")
    alpha_tvc: float | None = Field(default=None, ge=0, description="Weight of channel variation; alpha_tv if None")
    scheduler: Scheduler = Field(default="decay", description="When priors count")
    known: Known = Field(
        default="recovered",
        description="What the observer has of question and answer: read from the gradient, given (for comparison), or "
        "random characters in their places",
    )
    init: Start | None = Field(default=None, description="Where the search begins; as the method has it if None")
    knowledge: Literal["published", "template"] = Field(
        default="published", description="Whether the other methods are given the template too"
    )
    ocr: str = Field(default="rapidocr", description="Engine that reads the reconstructions")
    ocr_weights: str | None = Field(default=None, description="Folder of its weights, for trocr")
