"""Evaluation of reconstructions: attack and baseline in the same resamples of units.

Source: cdmi-reconstruction, sections 5.2 and 5.3.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import numpy as np

from pfl_audit.attacks.guesses.resamples import Resampled, up_to_value
from pfl_audit.attacks.reconstruction import measures
from pfl_audit.attacks.reconstruction.measures import Order
from pfl_audit.attacks.reconstruction.outcomes import (
    FIRST,
    SHARES,
    Attacked,
    Compared,
    Evaluation,
    MultiShot,
    OneShot,
    Pick,
)
from pfl_audit.attacks.reconstruction.search import Guess
from pfl_audit.attacks.reconstruction.specs import MembershipMetric
from pfl_audit.metrics.arrays import Floats
from pfl_audit.metrics.intervals import RESAMPLES, Estimate, estimate

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


def ratio_to_reference(guess: Guess) -> float:
    """Mean log-likelihood ratio of the target to a model of its task that has seen public forms alone."""
    return guess.ratio


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
WITH_REFERENCE: Final[Mapping[MembershipMetric, Score]] = {**METRICS, "ratio to the public target": ratio_to_reference}


def best_attempt(guesses: Sequence[Guess], score: Score) -> tuple[int, float]:
    """Number of the attempt with the highest score, the first of equal ones, and its score."""
    scores = [score(guess) for guess in guesses]
    best = int(np.argmax(scores))
    return best, scores[best]


def evaluate(
    fields: Sequence[Attacked],
    epsilon: float,
    rng: np.random.Generator,
    *,
    resamples: int = RESAMPLES,
    metrics: Mapping[MembershipMetric, Score] = METRICS,
) -> Evaluation:
    """Score the reconstructions of some fields.

    Args:
        fields: Fields of forms that the target was trained on, or of forms that it has never seen; one at least.
        epsilon: Smoothing constant of the improvement factor.
        metrics: Membership metrics, one at least.

    Raises:
        ValueError: There is no field.
    """
    private = Resampled([field.unit for field in fields], rng, resamples)
    shot = _one_shot(fields, epsilon, private)
    baseline = _pick(fields, [field.found.baseline for field in fields], public_likelihood)
    theirs, _ = _areas(baseline, private)
    multi: dict[MembershipMetric, MultiShot] = {}
    for name, score in metrics.items():
        attack = _pick(fields, [field.found.attack for field in fields], score)
        ours, first = _areas(attack, private)
        multi[name] = MultiShot(
            attack, baseline, {number: compare(ours[number], theirs[number]) for number in ours}, first
        )
    return Evaluation(private.units, len(fields), shot, multi)


def _one_shot(fields: Sequence[Attacked], epsilon: float, drawn: Resampled) -> OneShot:
    attack = _values(fields, [field.found.attack[0] for field in fields])
    baseline = _values(fields, [field.found.baseline[0] for field in fields])
    both = np.hstack([attack, baseline])
    value, samples = drawn.statistic(lambda weights: weights @ both / weights.sum(axis=1, keepdims=True))
    scores = {}
    for at, name in enumerate(measures.NAMES):
        pair = [estimate(value[column], samples[:, column]) for column in (at, at + 4)]
        scores[name] = compare(*(drawn.share(one) for one in pair) if name == "PR" else pair)
    tokens = estimate(value[5] - value[1], samples[:, 5] - samples[:, 1])
    for column in (0, 4):
        samples[:, column] = drawn.rare(float(value[column]), samples[:, column])
    improvement = estimate(
        float(measures.improvement_factor(value[:4], value[4:], epsilon)),
        measures.improvement_factor(samples[:, :4], samples[:, 4:], epsilon),
    )
    return OneShot(attack, baseline, scores, tokens, up_to_value(improvement))


def _areas(pick: Pick, drawn: Resampled) -> tuple[dict[str, Estimate], dict[str, Estimate]]:
    """AccAUC, HamAAC and AccAt of SHARES; and by how much the first-ranked fields are better than all."""
    right, wrong = pick.values[:, 0], pick.values[:, 1]

    def statistic(weights: Floats) -> Floats:
        order = Order.by(pick.scores, weights)
        acc_at, ham_at = order.at(right, [*SHARES.values(), FIRST, 1.0]), order.at(wrong, [FIRST, 1.0])
        areas = [order.area(right), 1.0 - order.area(wrong)]
        return np.column_stack([*areas, acc_at[:, :-2], acc_at[:, -2] - acc_at[:, -1], ham_at[:, 1] - ham_at[:, 0]])

    value, samples = drawn.statistic(statistic)
    names = ("AccAUC", "HamAAC", *SHARES, "PR", "Hamming similarity")
    found = {name: estimate(value[at], samples[:, at]) for at, name in enumerate(names)}
    first = {name: found.pop(name) for name in names[-2:]}
    parts = {"AccAUC": 1.0, "HamAAC": 1.0, **SHARES}
    return found | {name: drawn.share(found[name], share) for name, share in parts.items()}, first


def _pick(fields: Sequence[Attacked], guesses: Sequence[Sequence[Guess]], score: Score) -> Pick:
    """Keep one attempt a field and sort the fields, by the score alone."""
    kept = [best_attempt(attempts, score) for attempts in guesses]
    attempts = np.array([attempt for attempt, _ in kept], dtype=np.int64)
    scores = np.array([value for _, value in kept])
    values = _values(fields, [some[attempt] for some, attempt in zip(guesses, attempts, strict=True)])
    order = Order.by(scores)
    shares, acc_at = order.steps(values[:, 0])
    return Pick(attempts, scores, order.places, values, shares, acc_at, order.steps(values[:, 1])[1])


def _values(fields: Sequence[Attacked], guesses: Sequence[Guess]) -> Floats:
    pairs = zip(fields, guesses, strict=True)
    return np.array([measures.distances(field.truth, guess.tokens) for field, guess in pairs])


def compare(attack: Estimate, baseline: Estimate) -> Compared:
    """Two numbers and their difference, in the same resamples."""
    return Compared(attack, baseline, up_to_value(attack.minus(baseline)))
