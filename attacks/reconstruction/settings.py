"""What can be set about the reconstruction of scrubbed fields.

Constants marked "paper only" are known from the paper's text alone: no code of it was ever published.
"""

from __future__ import annotations

from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

Mean = Literal["geometric", "arithmetic"]
MembershipMetric = Literal[
    "target perplexity",
    "raw perplexity",
    "perplexity ratio",
    "raw and ratio",
    "max token likelihood gap",
    "max token likelihood ratio",
]
"""Ours, and the five of cdmi-reconstruction, section 4.3."""


class ReconstructionSettings(BaseModel):
    """Settings of CDMI (cdmi-reconstruction, section 4.2 and appendix A)."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    candidates: int = Field(default=128, ge=1, description="Tokens that are tried a step (N_c; paper only)")
    public_temperature: float = Field(
        default=0.3, gt=0, description="Of the public model's softmax, or of an MLM target's (paper only: 0.2 to 0.4)"
    )
    decay_start: float = Field(
        default=3.0,
        ge=1,
        description="How many times hotter that softmax is at a field's first token (ours)",
    )
    decay_steps: int = Field(default=3, ge=0, description="Tokens until it has cooled down (paper only)")
    target_temperature: float = Field(
        default=0.3, gt=0, description="Of the softmax over the target's losses, without decay (paper only: 0.2 to 0.4)"
    )
    mean: Mean = Field(default="geometric", description="How the two likelihoods are joined (paper only)")
    weight: float = Field(
        default=0.4, ge=0, le=1, description="Of the target's likelihood in that mean (paper only: 0.2 to 0.6)"
    )
    nucleus: float = Field(default=0.10, gt=0, le=1, description="Probability that sampling keeps (paper only)")
    attempts: int = Field(default=8, ge=1, le=64, description="At every field; the first is one-shot (n_a; paper only)")
    labels: tuple[str, ...] = Field(
        default=(), description="Labels of the fields that are attacked; answers, where forms have such, else all"
    )
    shortest: int = Field(default=3, ge=1, description="Tokens of the shortest field that is attacked")
    longest: int = Field(default=15, ge=1, description="Tokens of the longest field that is attacked")
    fields: int | None = Field(default=None, ge=1, description="Attack so many fields at most, drawn by chance")
    control: bool = Field(default=True, description="Attack forms too that the target has never seen")
    ranking: MembershipMetric = Field(
        default="target perplexity", description="What the finding goes by (ours); the paper's five are reported too"
    )
    epsilon: float = Field(default=0.01, gt=0, description="Of the improvement factor (ours; the paper gives none)")

    @model_validator(mode="after")
    def _lengths(self) -> Self:
        if self.shortest > self.longest:
            raise ValueError("shortest must not be above longest")
        return self
