"""What the scores of document canaries say of a released model, and of the guarantee that it states."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import logit
from scipy.stats import binom

from pfl_audit.privacy.canary_coins import Manifest
from pfl_audit.privacy.guarantee import PrivacyGuarantee
from pfl_audit.privacy.lower_bounds import (
    ERROR,
    Guesses,
    contradicts,
    detectable_share,
    epsilon_lower_bound,
    mechanism_lower_bound,
    p_value,
)
from pfl_audit.privacy.pld import SampledGaussian


@dataclass(frozen=True)
class CanaryBounds:
    """Lower bounds of epsilon from the guesses of the coins.

    Attributes:
        guesses: The guesses, and how many are correct.
        epsilon: Lower bound at the stated delta for any mechanism (Steinke, Nasr and Jagielski 2023, theorem 5.2).
        epsilon_of_mechanism: Lower bound for a mechanism that is as stated except for the amount of noise (Mahloujifar,
            Melis and Chaudhuri 2024); None without a stated mechanism.
    """

    guesses: Guesses
    epsilon: float
    epsilon_of_mechanism: float | None

    @property
    def largest(self) -> float:
        """The larger bound."""
        return max(self.epsilon, self.epsilon_of_mechanism or 0.0)


def pages_asked(manifest: Manifest, claim: PrivacyGuarantee | None) -> range:
    """Numbers of the pages whose losses decide the guesses: M for M canaries, or 2 M for groups of a fixed size.

    In such groups a provider is replaced, so every canary is a pair of companies, i and M + i, and its coin decides
    which of the two is trained on.
    """
    return range(manifest.canaries * (2 if claim is not None and claim.sampling.kind == "fixed-size" else 1))


def pages_trained(manifest: Manifest, *, pairs: bool) -> list[int]:
    """Numbers of the pages that are trained on: i where coin i is 1; for pairs, M + i where it is 0."""
    if pairs:
        return [number if coin else manifest.canaries + number for number, coin in enumerate(manifest.coins)]
    return [number for number, coin in enumerate(manifest.coins) if coin]


def guess_coins(evidence: NDArray[np.float64], manifest: Manifest) -> Guesses:
    """Guess a coin of 1 for the canaries with the most evidence for it, and one of 0 for those with the least.

    Args:
        evidence: Evidence that a page was trained on, float64 (pages,), in the order of ``pages_asked``. The score
            of a coin is that of the canary's page, or for pairs the difference of the two pages.
        manifest: Coins, and the number of guesses that was fixed before the run.
    """
    count = manifest.canaries
    scores = evidence[:count] - evidence[count:] if len(evidence) > count else evidence
    order, coins = np.argsort(-scores, kind="stable"), manifest.coins
    low = manifest.guesses // 2
    trained, others = order[: manifest.guesses - low], order[len(order) - low :]
    return Guesses(count, manifest.guesses, int(coins[trained].sum() + (~coins[others]).sum()))


def bound_epsilon(guesses: Guesses, claim: PrivacyGuarantee | None, error: float = ERROR) -> CanaryBounds:
    """Lower bounds of epsilon that hold together with probability 1 - ``error``.

    Args:
        claim: The stated guarantee, or None.
        error: Probability that a bound is too high.
    """
    if claim is None:
        return CanaryBounds(guesses, epsilon_lower_bound(guesses, 0.0, error), None)
    kind, sampled = claim.sampling.kind, claim.sampled()
    family = mechanism_lower_bound(
        lambda strength: SampledGaussian(sampled, 1 / strength, kind), guesses, claim.delta, error / 2
    )
    return CanaryBounds(guesses, epsilon_lower_bound(guesses, claim.delta, error / 2), family)


def contradicted(guesses: Guesses, claim: PrivacyGuarantee, error: float = ERROR) -> str | None:
    """Why the guesses contradict a guarantee, in a clause; None if they do not.

    Args:
        error: Probability that a true guarantee is contradicted.
    """
    if p_value(guesses, claim.epsilon, claim.delta) <= error / 2:
        return f"epsilon is above the stated {claim.epsilon:.4g}"
    mechanism = SampledGaussian(claim.sampled(), claim.noise_multiplier, claim.sampling.kind)
    if contradicts(mechanism.trade_off, guesses, error / 2):
        return "the guesses are better than the stated mechanism allows"
    return None


def smallest_epsilon(made: int, error: float) -> float:
    """Epsilon of independent guesses that a test of ``made`` coins at level ``error`` finds in ``POWER`` of the runs.

    Returns:
        Epsilon, infinite if not even perfect guesses are significant.
    """
    share = detectable_share(Guesses(made, made, 0), lambda some: binom.sf(some.correct - 1, made, 0.5) <= error)
    return float("inf") if share is None else float(logit(min(share, 1 - 1e-12)))
