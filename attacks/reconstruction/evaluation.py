"""Evaluation of reconstructions: attack and baseline in the same resamples of documents.

Source: cdmi-reconstruction, sections 5.2 and 5.3.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from pfl_audit.attacks.reconstruction import similarity
from pfl_audit.attacks.reconstruction.curves import Order
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
from pfl_audit.attacks.reconstruction.ranking import METRICS, Score, best_attempt, public_likelihood
from pfl_audit.attacks.reconstruction.resampling import Resampled
from pfl_audit.attacks.reconstruction.search import Guess
from pfl_audit.attacks.reconstruction.settings import MembershipMetric
from pfl_audit.metrics.intervals import RESAMPLES, Estimate, estimate

Floats = NDArray[np.float64]


def evaluate(
    fields: Sequence[Attacked], epsilon: float, rng: np.random.Generator, *, resamples: int = RESAMPLES
) -> Evaluation:
    """Score the reconstructions of some fields.

    Args:
        fields: Fields of forms that the target was trained on, or of forms that it has never seen; one at least.
        epsilon: Smoothing constant of the improvement factor.

    Raises:
        ValueError: There is no field.
    """
    private = Resampled([field.document for field in fields], rng, resamples)
    shot = _one_shot(fields, epsilon, private)
    baseline = _pick(fields, [field.found.baseline for field in fields], public_likelihood)
    theirs, _ = _areas(baseline, private)
    multi: dict[MembershipMetric, MultiShot] = {}
    for name, score in METRICS.items():
        attack = _pick(fields, [field.found.attack for field in fields], score)
        ours, first = _areas(attack, private)
        multi[name] = MultiShot(
            attack, baseline, {number: _compare(ours[number], theirs[number]) for number in ours}, first
        )
    return Evaluation(private.documents, len(fields), shot, multi)


def _one_shot(fields: Sequence[Attacked], epsilon: float, drawn: Resampled) -> OneShot:
    attack = _values(fields, [field.found.attack[0] for field in fields])
    baseline = _values(fields, [field.found.baseline[0] for field in fields])
    both = np.hstack([attack, baseline])
    value, samples = drawn.statistic(lambda weights: weights @ both / weights.sum(axis=1, keepdims=True))
    scores = {}
    for at, name in enumerate(similarity.NAMES):
        pair = [estimate(value[column], samples[:, column]) for column in (at, at + 4)]
        scores[name] = _compare(*(drawn.share(one) for one in pair) if name == "PR" else pair)
    improvement = estimate(
        float(similarity.improvement_factor(value[:4], value[4:], epsilon)),
        similarity.improvement_factor(samples[:, :4], samples[:, 4:], epsilon),
    )
    return OneShot(attack, baseline, scores, improvement)


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
    return found | {name: drawn.share(found[name], share) for name, share in SHARES.items()}, first


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
    return np.array([similarity.distances(field.truth, guess.tokens) for field, guess in pairs])


def _compare(attack: Estimate, baseline: Estimate) -> Compared:
    value = attack.value - baseline.value
    found = estimate(value, attack.samples - baseline.samples)
    # Where a share is 0 or 1 throughout, its samples lie to one side of it.
    return Compared(attack, baseline, replace(found, low=min(found.low, value), high=max(found.high, value)))
