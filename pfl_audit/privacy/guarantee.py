"""Privacy guarantee of a checkpoint: the ``privacy`` entry of ``training.json``.

The file may come from anywhere: all fields are typed and bounded, and unknown fields are ignored.
"""

from __future__ import annotations

from math import exp
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from pfl_audit.privacy.sampling import MAX_ROUNDS, Sampling, participations
from pfl_audit.privacy.units import unit_words

Text = Annotated[str, Field(max_length=300)]
Sentence = Annotated[str, Field(max_length=2000)]
Finite = Annotated[float, Field(allow_inf_nan=False)]
Epsilon = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Delta = Annotated[float, Field(gt=0, lt=1)]
Rate = Annotated[float, Field(gt=0, le=1)]
Chance = Annotated[float, Field(ge=0, le=1)]
NoiseScope = Literal["sum", "message"]
Rounds = Annotated[int, Field(ge=1, le=MAX_ROUNDS)]


class GuaranteeSampling(BaseModel):
    """Sampling of the units of a round."""

    model_config = ConfigDict(strict=True, frozen=True)

    kind: Literal["poisson", "fixed-size", "schedule"] = Field(description="`poisson`, `fixed-size` or `schedule`")
    scheme: Literal["providers", "clients"] = Field(description="What is sampled")
    client_rate: Rate = Field(description="Probability that a client takes part in a round")
    provider_rate: Rate = Field(description="Probability that a unit of a client takes part")
    separation: Rounds | None = Field(default=None, description="Rounds between two participations in a schedule")


class ComposedGuarantee(BaseModel):
    """Guarantee of a run together with the runs before it over the same data, by a Rényi filter."""

    model_config = ConfigDict(strict=True, frozen=True)

    epsilon: Epsilon = Field(description="Epsilon of all runs together")
    delta: Delta = Field(description="Delta of all runs together")
    runs: Annotated[int, Field(ge=1)] = Field(description="Runs in the budget ledger, this one among them")
    order: Annotated[float, Field(gt=1, allow_inf_nan=False)] = Field(description="Rényi order of the filter")


class PrivacyGuarantee(BaseModel):
    """Stated (epsilon, delta) guarantee, with all parameters that it depends on."""

    model_config = ConfigDict(strict=True, frozen=True)

    epsilon: Epsilon = Field(description="Stated epsilon")
    delta: Delta = Field(description="Stated delta")
    unit: Text = Field(description="Unit of protection: `provider`, with all its documents, `document` or `example`")
    adjacency: Text = Field(description="Adjacency of data sets: `add/remove one provider`")
    accountant: Text = Field(description="Accountant of epsilon: pld, prv, renyi or another")
    accounting: Literal["valid", "published"] = Field(description="`valid`, or as `published` by a paper")
    prv: Epsilon | None = Field(default=None, description="Epsilon by the PRV accountant")
    renyi: Epsilon | None = Field(default=None, description="Epsilon by the Rényi accountant")
    noise_multiplier: Positive = Field(description="Standard deviation of the noise divided by the clipping norm")
    clip: Positive = Field(description="Clipping norm of a unit's update")
    rounds: Rounds = Field(description="Number of rounds run")
    rounds_accounted: Rounds = Field(description="Number of rounds that epsilon was computed for")
    sampling: GuaranteeSampling = Field(description="Sampling of the units of a round")
    providers: Annotated[int, Field(ge=1)] | None = Field(
        default=None, description="Number of units: of providers, or by `unit` of others"
    )
    denominator: Positive = Field(description="Constant divisor of the noisy sum")
    noise_generator: Text = Field(description="Name of the noise generator")
    forced_participation: bool = Field(
        default=False, description="Whether a provider is added to rounds in which none was drawn"
    )
    noise: NoiseScope = Field(
        default="sum",
        description="Carrier of the full noise: `sum` over all clients, or every client's own `message`, which the "
        "guarantee then covers",
    )
    composed: ComposedGuarantee | None = Field(default=None, description="Guarantee together with the runs before it")
    quorum: Annotated[int, Field(ge=1)] | None = Field(
        default=None, description="Clients whose shares of the noise are the whole noise, if a round may lack others"
    )

    def sampled(self) -> Sampling:
        """Sampling with the number of rounds run, or with those of a provider in a schedule."""
        taken = participations(self.rounds, self.sampling.separation)
        return Sampling(self.sampling.client_rate, self.sampling.provider_rate, taken)


class AllowedReconstruction(BaseModel):
    """Largest chance to reconstruct a value of one unit that a guarantee allows."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    prior: Chance = Field(description="Chance to guess it from a model that was trained without its unit")
    by_mechanism: Chance | None = Field(
        description="Largest chance by the mechanism's trade-off curve, where it is covered"
    )
    by_epsilon: Chance = Field(description="The same by the effective epsilon alone, or by the stated one")


Worth = Literal["holds", "weaker", "unknown", "in doubt", "unexplained", "contradicted"]
"""Worth of a stated guarantee: by accounting alone (the first three), or by what attacks measured, the worst last."""


class GuaranteeReview(BaseModel):
    """Review of a stated guarantee.

    ``epsilon`` (the effective epsilon) and the bounds of the accountants are recomputed by valid accounting for the
    rounds run.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    claim: PrivacyGuarantee | None = Field(description="Stated guarantee; None if it cannot be read")
    worth: Worth = Field(
        description="By accounting `holds`, `weaker` than stated, or `unknown`; by what attacks measured `in doubt`, "
        "`unexplained` or `contradicted`"
    )
    text: Sentence = Field(description="The review in a sentence")
    epsilon: Finite | None = Field(
        default=None, description="Effective epsilon, by valid accounting for the rounds run"
    )
    accountant: Literal["pld", "prv", "renyi"] | None = Field(default=None, description="Accountant of `epsilon`")
    prv: Finite | None = Field(default=None, description="Epsilon by the PRV accountant")
    prv_failure: Sentence | None = Field(default=None, description="Why the PRV accountant gave none")
    renyi: Finite | None = Field(default=None, description="Epsilon by the Rényi accountant")
    published: Finite | None = Field(default=None, description="Epsilon by published accounting, if it differs")
    claimed_accuracy: Finite | None = Field(
        default=None, description="Largest balanced accuracy by the stated guarantee"
    )
    largest_accuracy: Finite | None = Field(
        default=None, description="Largest balanced accuracy by the mechanism, where it is covered"
    )
    reconstruction: list[AllowedReconstruction] = Field(
        default_factory=list, max_length=50, description="What it allows of reconstruction, by rising prior"
    )
    parts: list[Sentence] = Field(
        default_factory=list, max_length=50, description="What parts of the mechanism change of the guarantee"
    )
    not_covered: list[Sentence] = Field(
        default_factory=list, max_length=50, description="What the guarantee does not cover"
    )
    warnings: list[Sentence] = Field(
        default_factory=list, max_length=50, description="What makes the guarantee weaker, or what it depends on"
    )


def accuracy_bound(epsilon: float, delta: float) -> float:
    """Largest balanced accuracy of a membership attack on one unit: (e^epsilon + delta) / (1 + e^epsilon).

    The bound is attained where the two constraints TPR <= e^epsilon FPR + delta and TNR <= e^epsilon FNR + delta meet
    (Kairouz, Oh and Viswanath 2015, theorem 2.1).
    """
    return 1.0 - (1.0 - min(delta, 1.0)) * exp(-epsilon) / (1.0 + exp(-epsilon))


def guarantee_warnings(
    *,
    delta: float,
    epsilon: float | None = None,
    accountant: str = "prv",
    providers: int | None = None,
    unit: str = "provider",
    rounds: int | None = None,
    rounds_accounted: int | None = None,
) -> list[str]:
    """Reasons why a guarantee is weaker than stated, one sentence each; arguments that are None are not checked.

    Args:
        delta: Delta of the guarantee, between 0 and 1.
        epsilon: Stated epsilon.
        accountant: Accountant of the stated epsilon.
        providers: Number of units in training.
        unit: Unit of privacy.
        rounds: Number of rounds run.
        rounds_accounted: Number of rounds that epsilon was computed for.
    """
    found = []
    if providers is not None and delta >= 1 / providers:
        noun = unit_words(unit).noun
        found.append(
            f"delta {delta:g} is not below 1/n for n = {providers} {noun}s: disclosing one {noun} "
            "completely would satisfy it"
        )
    if rounds is not None and rounds_accounted is not None and rounds > rounds_accounted:
        found.append(f"{rounds} rounds were run, but only {rounds_accounted} are accounted for")
    if accountant == "classical-gaussian" and epsilon is not None and epsilon > 1:
        found.append(f"epsilon {epsilon:g} comes from the classical Gaussian formula, which is proven only up to 1")
    return found
