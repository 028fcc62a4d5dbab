"""Which attempt to keep, and which fields to believe first, without looking at what stood there.

Source: cdmi-reconstruction, section 4.3 (the five metrics), Algorithm 1, lines 13 and 16; a sixth is ours.

Every score is higher the more plausible it is that the target was trained on the text: it is likely to the target
and unlikely to public knowledge. The paper says this of "raw and ratio" (prioritise fields of high PUB-MLM
perplexity and high ratio), and the other four follow. Perplexities and ratios stand as logarithms, which keeps
their order and does not overflow.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import numpy as np

from pfl_audit.attacks.reconstruction.search import Guess
from pfl_audit.attacks.reconstruction.settings import MembershipMetric

Score = Callable[[Guess], float]


def log_perplexity(log_likelihoods: Sequence[float]) -> float:
    """Logarithm of the perplexity of a field: minus the mean of its tokens' log-likelihoods."""
    return -float(np.mean(log_likelihoods))


def target_perplexity(guess: Guess) -> float:
    """Minus the logarithm of the target's perplexity: how sure the target is. Ours, not the paper's.

    Of the paper's five, three grow with how unlikely a guess is to PUB-MLM, which a wrong guess is too, and two look
    at a single token, which one remembered token of a wrong guess satisfies. On the embedded forms this one sorts
    better than all five; it was chosen there.
    """
    return -log_perplexity(guess.log_target)


def raw_perplexity(guess: Guess) -> float:
    """Logarithm of the PUB-MLM perplexity."""
    return log_perplexity(guess.log_public)


def perplexity_ratio(guess: Guess) -> float:
    """Logarithm of the PUB-MLM perplexity over the target's."""
    return log_perplexity(guess.log_public) - log_perplexity(guess.log_target)


def raw_and_ratio(guess: Guess) -> float:
    """Logarithm of the product of the two above."""
    return raw_perplexity(guess) + perplexity_ratio(guess)


def max_likelihood_gap(guess: Guess) -> float:
    """Largest difference of a token's target likelihood and its PUB-MLM one, -1 to 1."""
    return float(np.max(np.exp(guess.log_target) - np.exp(guess.log_public)))


def max_likelihood_ratio(guess: Guess) -> float:
    """Logarithm of the largest ratio of the two."""
    return float(np.max(np.subtract(guess.log_target, guess.log_public)))


def public_likelihood(guess: Guess) -> float:
    """Minus the logarithm of the PUB-MLM perplexity: the likeliest first.

    The baseline goes by it. The paper does not say how its baseline is ranked; without a target, what public
    knowledge is most sure of is the best order there is, and the hardest to beat.
    """
    return -raw_perplexity(guess)


METRICS: Final[Mapping[MembershipMetric, Score]] = {
    "target perplexity": target_perplexity,
    "raw perplexity": raw_perplexity,
    "perplexity ratio": perplexity_ratio,
    "raw and ratio": raw_and_ratio,
    "max token likelihood gap": max_likelihood_gap,
    "max token likelihood ratio": max_likelihood_ratio,
}


def best_attempt(guesses: Sequence[Guess], score: Score) -> tuple[int, float]:
    """Number of the attempt with the highest score, the first of equal ones, and its score."""
    scores = [score(guess) for guess in guesses]
    best = int(np.argmax(scores))
    return best, scores[best]
