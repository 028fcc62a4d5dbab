"""What a checkpoint says of its privacy, as ``training.json`` carries it under ``privacy``.

The file may come from anywhere: everything is typed and bounded, and what is not known is ignored.
"""

from __future__ import annotations

from math import exp
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from pfl_audit.privacy.sampling import MOST_ROUNDS, Sampling

CRYPTOGRAPHIC = "cryptographic"
"""How the name of an unpredictable noise generator begins."""

Text = Annotated[str, Field(max_length=300)]
Sentence = Annotated[str, Field(max_length=2000)]
Finite = Annotated[float, Field(allow_inf_nan=False)]
Epsilon = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Delta = Annotated[float, Field(gt=0, lt=1)]
Rate = Annotated[float, Field(gt=0, le=1)]
Rounds = Annotated[int, Field(ge=1, le=MOST_ROUNDS)]


class ClaimedSampling(BaseModel):
    """How providers came into a round."""

    model_config = ConfigDict(strict=True, frozen=True)

    kind: Literal["poisson", "fixed-size"]
    scheme: Literal["providers", "clients"]
    client_rate: Rate
    provider_rate: Rate


class PrivacyClaim(BaseModel):
    """(epsilon, delta), and everything that it rests on."""

    model_config = ConfigDict(strict=True, frozen=True)

    epsilon: Epsilon
    delta: Delta
    unit: Text = Field(description="What is protected: `provider`, with all its documents")
    adjacency: Text = Field(description="How two data sets differ: `add/remove one provider`")
    accountant: Text = Field(description="prv, renyi, or what else the figure comes from")
    accounting: Literal["valid", "published"]
    prv: Epsilon | None = None
    renyi: Epsilon | None = None
    noise_multiplier: Positive = Field(description="Standard deviation of the noise over the clip")
    clip: Positive = Field(description="Largest norm of a provider's update")
    rounds: Rounds = Field(description="Rounds that were run")
    rounds_accounted: Rounds = Field(description="Rounds that epsilon was computed for")
    sampling: ClaimedSampling
    providers: Annotated[int, Field(ge=1)] | None = None
    denominator: Positive = Field(description="Constant that the noisy sum was divided by")
    noise_generator: Text = Field(description=f"Begins with `{CRYPTOGRAPHIC}` where it is unpredictable")
    forced_participation: bool = False
    not_covered: list[Text] = Field(default_factory=list, max_length=50)

    def sampled(self) -> Sampling:
        """Sampling over the rounds that were run."""
        return Sampling(self.sampling.client_rate, self.sampling.provider_rate, self.rounds)


class ClaimReview(BaseModel):
    """What a claim is worth.

    ``epsilon`` and its accountants are recomputed by valid accounting for the rounds that were run.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    claim: PrivacyClaim | None = Field(description="None where it cannot be read")
    worth: Literal["holds", "weaker", "unknown"]
    text: Sentence
    epsilon: Finite | None = None
    accountant: Literal["prv", "renyi"] | None = None
    prv: Finite | None = None
    prv_failure: Sentence | None = None
    renyi: Finite | None = None
    published: Finite | None = Field(default=None, description="The papers' figure, where it differs")
    claimed_accuracy: Finite | None = Field(default=None, description="Most balanced accuracy by the claim")
    largest_accuracy: Finite | None = Field(default=None, description="The same by the recomputed epsilon")
    warnings: list[Sentence] = Field(default_factory=list, max_length=50)


def accuracy_bound(epsilon: float, delta: float) -> float:
    """Most balanced accuracy of any attack on one provider's membership: (e^epsilon + delta) / (1 + e^epsilon).

    It is where the two constraints TPR <= e^epsilon FPR + delta and TNR <= e^epsilon FNR + delta meet
    (Kairouz, Oh and Viswanath 2015, theorem 2.1).
    """
    return 1.0 - (1.0 - min(delta, 1.0)) * exp(-epsilon) / (1.0 + exp(-epsilon))


def warnings_for(
    *,
    delta: float,
    epsilon: float | None = None,
    accountant: str = "prv",
    providers: int | None = None,
    fixed_size: bool = False,
    rounds: int | None = None,
    rounds_accounted: int | None = None,
    forced_participation: bool = False,
    noise_generator: str | None = None,
) -> list[str]:
    """What makes a guarantee weaker than it looks, a sentence each; what is None is not looked at.

    Args:
        delta: 0 to 1, both excluded.
        epsilon: As claimed.
        accountant: What epsilon comes from.
        providers: How many there are in training.
        fixed_size: Groups of a fixed size were drawn, where the accountants assume Poisson sampling.
        rounds: That were run.
        rounds_accounted: That epsilon was computed for.
        forced_participation: A provider is put into a round in which none was drawn.
        noise_generator: Its name.
    """
    found = []
    if providers is not None and delta >= 1 / providers:
        found.append(
            f"delta {delta:g} is not below 1/n for n = {providers} providers: giving one provider away altogether "
            "would be within it"
        )
    if fixed_size:
        found.append(
            "groups of a fixed size are drawn, and epsilon is that of Poisson sampling: the guarantee does not follow"
        )
    if rounds is not None and rounds_accounted is not None and rounds > rounds_accounted:
        found.append(f"{rounds} rounds were run, and {rounds_accounted} are accounted for")
    if accountant == "classical-gaussian" and epsilon is not None and epsilon > 1:
        found.append(f"epsilon {epsilon:g} comes from the classical Gaussian formula, which is proven up to 1 only")
    if forced_participation:
        found.append("a provider is forced into rounds in which none was drawn, which Poisson sampling never does")
    if noise_generator is not None and not noise_generator.casefold().startswith(CRYPTOGRAPHIC):
        found.append(
            f"the noise comes from {noise_generator}, which is not cryptographic: who learns its seed or state "
            "can take the noise off again"
        )
    return found
