"""What a run with canaries says about a guarantee."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from pfl_audit.privacy.canary_coins import Manifest
from pfl_audit.privacy.guarantee import PrivacyGuarantee
from pfl_audit.privacy.lower_bounds import (
    ERROR,
    POWER,
    Guesses,
    Mechanism,
    contradicts,
    detectable_share,
    epsilon_lower_bound,
    mechanism_lower_bound,
    p_value,
)
from pfl_audit.privacy.pld import SampledGaussian
from pfl_audit.privacy.units import unit_words
from pfl_audit.training.federated.canaries.estimates import Estimates, estimate
from pfl_audit.training.federated.canaries.run import Observation

STATEMENTS = 7
"""Five estimates and two bounds. Each interval has an equal share of the error; tests share it step by step (Holm)."""

Family = Callable[[float], Mechanism]
"""Mechanisms by 1 / sigma, with sampling and rounds as stated."""


@dataclass(frozen=True)
class CanaryReport:
    """Report of a run with canaries. Intervals and bounds hold together with 95 % confidence, and so do contradictions.

    Attributes:
        claim: The guarantee.
        manifest: Coins of the canaries.
        guesses: The guesses with the most evidence, and how many are correct.
        accuracy: Share of correct guesses if every canary is guessed.
        epsilon: Lower bound of epsilon for any mechanism (Steinke, Nasr and Jagielski).
        epsilon_of_family: Lower bound of epsilon for a mechanism that is as stated except for the noise (Mahloujifar,
            Melis and Chaudhuri).
        estimates: Measured parameters of the mechanism.
        contradictions: What the run contradicts, one sentence each.
        finds: Share of correct guesses that contradicts the stated epsilon, and the stated mechanism, in four of five
            runs if guesses are independent; None where not even correct guesses alone do.
    """

    claim: PrivacyGuarantee
    manifest: Manifest
    guesses: Guesses
    accuracy: float
    epsilon: float
    epsilon_of_family: float
    estimates: Estimates
    contradictions: tuple[str, ...]
    finds: tuple[float | None, float | None]

    def to_dict(self) -> dict[str, Any]:
        """As JSON."""
        claim, guesses = self.claim, self.guesses
        rate = claim.sampling.provider_rate
        stated = {
            "noise_multiplier": claim.noise_multiplier,
            "sampling_rate": rate,
            "clip": 1.0,
            "correlation": 0.0,
            "draws": 0.0,
        }
        estimates = {name: _finite(found) for name, found in asdict(self.estimates).items()}
        return {
            "contradictions": list(self.contradictions),
            "epsilon": {
                "at_most_stated": claim.epsilon,
                "at_least_measured": self.epsilon,
                "at_least_measured_for_the_mechanism": self.epsilon_of_family,
                "delta": claim.delta,
                "confidence": 1 - ERROR,
            },
            "guesses": {
                "made": guesses.made,
                "correct": guesses.correct,
                "accuracy_of_all": self.accuracy,
                "finds_against_epsilon": self.finds[0],
                "finds_against_the_mechanism": self.finds[1],
            },
            "estimates": {name: {**found, "stated": stated[name]} for name, found in estimates.items()},
            "guarantee": claim.model_dump(mode="json"),
            "canaries": self.manifest.revealed(),
        }


def _finite(found: dict[str, float | None]) -> dict[str, float | None]:
    """An estimate as JSON, with the deviation that four of five such runs find."""
    low, high = (found[end] or 0.0 for end in ("low", "high"))
    finds = (high - low) / 2 * (1 + float(ndtri(POWER)) / -float(ndtri(ERROR / STATEMENTS / 2)))
    known = (found | {"finds": None if found["value"] is None else finds}).items()
    return {name: value if value is not None and np.isfinite(value) else None for name, value in known}


def family_of(claim: PrivacyGuarantee) -> Family:
    """Mechanisms that are as stated except for the noise."""
    return lambda strength: SampledGaussian(claim.sampled(), 1 / strength, claim.sampling.kind)


def report_on(claim: PrivacyGuarantee, manifest: Manifest, observation: Observation, family: Family) -> CanaryReport:
    """Guess the coins, and compare guarantee and measurement.

    Args:
        claim: The guarantee.
        manifest: Coins of the canaries.
        observation: Observation of a run with the canaries.
        family: Mechanisms by 1 / sigma.
    """
    error = ERROR / STATEMENTS
    evidence = log_likelihood_ratio(observation, claim.noise_multiplier, claim.sampling.provider_rate)
    correct = (evidence > 0) == manifest.coins
    chosen = np.argsort(-np.abs(evidence), kind="stable")[: manifest.guesses]
    guesses = Guesses(manifest.canaries, manifest.guesses, int(correct[chosen].sum()))
    curve = family(1 / claim.noise_multiplier).trade_off

    def against_epsilon(some: Guesses, level: float) -> bool:
        return p_value(some, claim.epsilon, claim.delta) <= level

    def against_mechanism(some: Guesses, level: float) -> bool:
        return contradicts(curve, some, level)

    def contradicted(level: float) -> list[str]:
        texts = _contradicted_parameters(observation, claim, estimate(observation, manifest.coins, level))
        if against_epsilon(guesses, level):
            texts.append(f"epsilon is above the stated {claim.epsilon:.4g}")
        if against_mechanism(guesses, level):
            texts.append("the guesses are better than the stated mechanism allows")
        return texts

    finds = [detectable_share(guesses, partial(test, level=error)) for test in (against_epsilon, against_mechanism)]
    return CanaryReport(
        claim,
        manifest,
        guesses,
        float(correct.mean()),
        epsilon_lower_bound(guesses, claim.delta, error),
        mechanism_lower_bound(family, guesses, claim.delta, error),
        estimate(observation, manifest.coins, error),
        tuple(holm(contradicted, STATEMENTS, ERROR)),
        (finds[0], finds[1]),
    )


def holm(contradicted: Callable[[float], list[str]], number: int, error: float) -> list[str]:
    """Sentences that tests contradict together with probability ``error`` at most if all are true (Holm 1979).

    Args:
        contradicted: Sentences that are contradicted, each by a test of this level; a higher one takes none away.
        number: Number of tests.
        error: Above 0 and below 1.
    """
    found = list[str]()
    while len(found) < number and len(more := contradicted(error / (number - len(found)))) > len(found):
        found = more
    return found


def log_likelihood_ratio(observation: Observation, noise: float, rate: float) -> NDArray[np.float64]:
    """Log-likelihood ratio of a coin of 1 to one of 0 for every canary, float64 (canaries,); the most powerful score.

    A round in which the client takes part is a mixture: with probability ``rate`` the mean is 1 (of the other coin -1,
    where a provider is replaced), else 0.

    Args:
        observation: Observation of the run.
        noise: Stated noise multiplier.
        rate: Stated probability that a provider of a participating client is drawn.
    """
    total = np.zeros(observation.projections.shape[1])
    with np.errstate(divide="ignore"):
        absent, present = np.log1p(-rate), np.log(rate)
    for values, active in zip(observation.matched, observation.active, strict=True):
        ratio = np.logaddexp(absent, present + (values - 0.5) / noise**2)
        if observation.replaced:
            ratio = ratio - np.logaddexp(absent, present + (-values - 0.5) / noise**2)
        total += np.where(active, ratio, 0.0)
    return total


def _contradicted_parameters(observation: Observation, claim: PrivacyGuarantee, found: Estimates) -> list[str]:
    """Sentences on the estimates whose intervals lie on the wrong side of what is stated."""
    noise, rate, noun = claim.noise_multiplier, claim.sampling.provider_rate, unit_words(claim.unit).noun
    value = {name: one["value"] or 0.0 for name, one in asdict(found).items()}
    sentences = (
        (
            found.noise_multiplier.high < noise,
            f"the noise multiplier is {value['noise_multiplier']:.4g}, below the stated {noise:.4g}",
        ),
        (found.clip.low > 1, f"updates are clipped to {value['clip']:.3g} times the stated norm"),
        (
            found.sampling_rate.low > rate,
            f"{noun}s are drawn with rate {value['sampling_rate']:.4g}, above the stated {rate:.4g}",
        ),
        (
            not found.correlation.low <= 0 <= found.correlation.high,
            f"the noise of two sums or messages has a correlation of {value['correlation']:.3g}",
        ),
        (
            not found.draws.low <= 0 <= found.draws.high,
            f"draws of two rounds depend on each other: their covariance is {value['draws']:.3g}"
            if observation.correlation is None
            else f"providers take part when it is not their turn, with {value['draws']:.3g} of an update a round",
        ),
    )
    return [text for contradicted, text in sentences if contradicted]
