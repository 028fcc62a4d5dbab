"""Settings of the reconstruction of scrubbed fields, and its checks."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from pfl_audit.attacks.reconstruction.inputs import FORMS, PUBLIC
from pfl_audit.core.attack import CheckSpec
from pfl_audit.core.review import Review
from pfl_audit.core.settings import Flag, PaperValue, Settings
from pfl_audit.models.protocol import Capability

Mean = Literal["geometric", "arithmetic"]
Shortlist = Literal["public", "gradient"]
MembershipMetric = Literal[
    "target perplexity",
    "raw perplexity",
    "perplexity ratio",
    "raw and ratio",
    "max token likelihood gap",
    "max token likelihood ratio",
    "ratio to the public target",
]
"""Ours, the five of cdmi-reconstruction, section 4.3, and the likelihood ratio to a reference (ours)."""


class ReconstructionSettings(Settings):
    """Settings of CDMI (cdmi-reconstruction, section 4.2 and appendix A)."""

    fields: Annotated[int | None, Flag(default="all")] = Field(
        default=None, ge=1, description="Most fields to attack, drawn at random."
    )
    labels: Annotated[tuple[str, ...], Flag("--label", default="answers, or all labels")] = Field(
        default=(), description="Attack fields of this label (repeat)."
    )
    guesses: int = Field(
        default=64,
        ge=1,
        le=4096,
        description="Likeliest fillings of a field that are tried; the finding goes by it (ours).",
    )
    expansions: Annotated[int, Flag(hidden=True)] = Field(
        default=1024, ge=1, description="Prefixes of a field after which the search for its place is cut off (ours)."
    )
    attempts: int = Field(default=8, ge=1, le=64, description="Attempts a field; the first is one-shot (n_a).")
    candidates: int = Field(default=128, ge=1, description="Tokens tried a step (N_c; paper only).")
    shortlist: Shortlist = Field(
        default="public",
        description="Who names these tokens: the public model (paper), or a first-order estimate of the mix of both "
        "models over the whole vocabulary (ours; not for an MLM target).",
    )
    nucleus: float = Field(default=0.10, gt=0, le=1, description="Probability that sampling keeps (p; paper only).")
    weight: float = Field(
        default=0.4,
        ge=0,
        le=1,
        description="Weight of the target model in the mean of the two likelihoods (paper only: 0.2 to 0.6).",
    )
    mean: Mean = Field(default="geometric", description="Mean of the two likelihoods (paper only).")
    ranking: Annotated[
        MembershipMetric, PaperValue("perplexity ratio", "section 4.3, which has five and recommends none")
    ] = Field(
        default="target perplexity",
        description="Membership metric that the finding goes by (ours); the paper's five are reported too.",
    )
    tune: bool = Field(
        default=False,
        description="Tune weight, mean and temperatures on a shadow target, trained on public forms alone as the "
        "target was on private ones (ours).",
    )
    control: Annotated[bool, PaperValue(False, "section 5.2: public knowledge is all that it is compared with")] = (
        Field(default=True, description="Attack the validation forms too, which the target never saw.")
    )
    public_temperature: Annotated[float, Flag(hidden=True)] = Field(
        default=0.3,
        ge=1e-3,
        description="Temperature of the public model's softmax, or of an MLM target's (paper only: 0.2 to 0.4).",
    )
    decay_start: Annotated[float, Flag(hidden=True)] = Field(
        default=3.0, ge=1, description="Factor on this temperature at the first token of a field (ours)."
    )
    decay_steps: Annotated[int, Flag(hidden=True)] = Field(
        default=3, ge=0, description="Tokens until the factor has fallen to 1 (paper only)."
    )
    target_temperature: Annotated[float, Flag(hidden=True)] = Field(
        default=0.3,
        ge=1e-3,
        description="Temperature of the softmax over the target's losses, without decay (paper only: 0.2 to 0.4).",
    )
    shortest: Annotated[int, Flag(hidden=True)] = Field(
        default=3, ge=1, description="Tokens of the shortest field that is attacked."
    )
    longest: Annotated[int, Flag(hidden=True)] = Field(
        default=15, ge=1, description="Tokens of the longest field that is attacked."
    )
    epsilon: Annotated[float, Flag(hidden=True)] = Field(
        default=0.01, gt=0, description="Epsilon of the improvement factor (ours; the paper gives none)."
    )

    @model_validator(mode="after")
    def _lengths(self) -> Self:
        if self.shortest > self.longest:
            raise ValueError("shortest must not be above longest")
        return self


_NEEDS = frozenset({Capability.FORM_LOSS, FORMS, PUBLIC})
_THREAT = {
    "knows": "the form with one field scrubbed, the field's label, place and number of tokens, and public forms of the "
    "same kind",
    "sees": "weights and architecture of the model, and so its loss for any way to fill the form in",
}
_REVIEW = Review(
    question="Can fields that were blacked out be filled in again?",
    classes=("reconstruction",),
    access="weights",
    obtains="values",
    nist=("data reconstruction",),
    atlas=("AML.T0024.001",),
)


def _spec(name: str, title: str, does: str) -> CheckSpec:
    return CheckSpec(f"reconstruction.{name}", title, _NEEDS, {**_THREAT, "does": does}, review=_REVIEW)


GUESSES = _spec(
    "guesses", "Secrets put back within k guesses", "tries the likeliest fillings of the whole field, best first"
)
ONE_SHOT = _spec(
    "one_shot",
    "Reconstruction of scrubbed fields, one attempt each",
    "fills the field in token by token, once",
)
MULTI_SHOT = _spec(
    "multi_shot",
    "Reconstruction of scrubbed fields, the most plausible of several attempts",
    "fills every field in several times, and ranks the attempts by how likely they are to the model",
)
