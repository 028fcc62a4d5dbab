"""One finding from many attacks: the strongest of each level of access, tested against the best that chance gives any.

Source of max-T: Westfall and Young (1993). What a control and the documents alone show is subtracted, over the same
resampled providers, with bounds that hold for all attacks of a level at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from pfl_audit.attacks.membership.evaluation import Outcome, enough
from pfl_audit.attacks.membership.rows import ACCESS
from pfl_audit.core.results import Level
from pfl_audit.core.verdict import COMPARED, COMPARED_ATTACKS, Bound, Budget, at_most_weak, level_of
from pfl_audit.metrics.intervals import Estimate, estimate
from pfl_audit.metrics.permutation import permute
from pfl_audit.metrics.power import smallest_effect

LARGEST_UNSEEN: Final = 0.70
"""Balanced accuracy (or AUC) that the audit must have been able to find before it says "no evidence"."""
_RANK: Final[tuple[Level, ...]] = ("leak", "weak", "unresolved", "none")


@dataclass(frozen=True)
class Compared:
    """An attack compared with what explains its number without a leak.

    Attributes:
        other: What that reaches by the same metric.
        difference: Attack minus other, over the same resamples.
        bound: One-sided lower bound of the difference that holds for all attacks of the level at once.
        critical: Difference at which that bound leaves zero out.
    """

    other: Estimate
    difference: Estimate
    bound: Bound
    critical: float


@dataclass(frozen=True)
class Judged:
    """An attack with its test results and level.

    Attributes:
        outcome: On the model under audit.
        p_value: Permutation, adjusted for the attacks of its level and for the levels.
        beside: ``control`` and ``documents`` to what they show, as far as there are.
        level: Level of this attack by itself.
        smallest: Smallest value of its metric that four of five such audits would have found.
        strength: Its gap in standard deviations under permutation.
    """

    outcome: Outcome
    p_value: float
    beside: dict[str, Compared]
    level: Level
    smallest: float
    strength: float

    @property
    def found(self) -> Estimate:
        """Its metric."""
        return self.outcome.estimates[self.outcome.metric]

    @property
    def order(self) -> tuple[int, float]:
        """Worst level first, then the strongest."""
        return _RANK.index(self.level), -self.strength


@dataclass(frozen=True)
class Decision:
    """Decision on provider membership over all attacks.

    Attributes:
        by_access: Attacks of each level of access, strongest first; levels from the least access.
        strongest: The attack that the finding rests on.
    """

    level: Level
    by_access: dict[str, tuple[Judged, ...]]
    strongest: Judged


def decide_membership(
    outcomes: Sequence[Outcome],
    control: Mapping[str, Outcome],
    blind: Outcome | None,
    budget: Budget,
    rng: np.random.Generator,
    *,
    trusted: bool,
) -> Decision:
    """Judge attacks on the same providers together.

    Args:
        outcomes: One an attack, of one T_s, evaluated with the same seeds and bootstrap.
        control: Id of an attack to the same attack on the control, over the same providers.
        blind: What the documents alone reach, evaluated in the same way.
        trusted: Whether something speaks against the classes being unlike in themselves: a control, or the user, who
            declares that they were drawn at random. Else the finding is weak at most.
    """
    levels = {access: [one for one in outcomes if one.row.access == access] for access in ACCESS}
    levels = {access: found for access, found in levels.items() if found}
    by_access = {}
    for access, found in levels.items():
        judged = _judge(found, control, blind, budget, rng, len(levels))
        if not trusted:  # what distinguishes the classes may be a difference between them that training did not make
            judged = [replace(one, level=at_most_weak(one.level)) for one in judged]
        by_access[access] = tuple(sorted(judged, key=lambda one: one.order))
    first = min((judged[0] for judged in by_access.values()), key=lambda one: one.order)
    return Decision(first.level, by_access, first)


def _judge(
    outcomes: Sequence[Outcome],
    control: Mapping[str, Outcome],
    blind: Outcome | None,
    budget: Budget,
    rng: np.random.Generator,
    levels: int,
) -> list[Judged]:
    permuted = permute(np.array([one.values for one in outcomes]), outcomes[0].attacked, rng)
    critical = permuted.critical(budget.leak / levels) / 2
    compared = {
        "control": _compare(outcomes, control, COMPARED_ATTACKS / levels),
        "documents": _compare(outcomes, {one.row.id: blind for one in outcomes if blind}, COMPARED_ATTACKS / levels),
    }
    judged = []
    for at, one in enumerate(outcomes):
        found = one.estimates[one.metric]
        beside = {name: others[one.row.id] for name, others in compared.items() if one.row.id in others}
        # What explains the number without a leak must be exceeded, from chance upwards.
        needed = [smallest_effect(float(critical[at]), float(found.samples.std()))]
        needed += [
            max(0.0, other.other.value - 0.5) + smallest_effect(other.critical, float(other.difference.samples.std()))
            for other in beside.values()
        ]
        smallest = min(1.0, 0.5 + max(needed))
        strength = float(permuted.gaps[at] / permuted.deviations[at]) if permuted.deviations[at] > 0 else 0.0
        p_value = min(1.0, float(permuted.p_values[at]) * levels)
        level = level_of(
            [p_value],
            [found.above(0.5)],
            budget,
            compared=[other.bound for other in beside.values()],
            enough=enough(one.attacked),
            resolved=smallest <= LARGEST_UNSEEN,
        )
        judged.append(Judged(one, p_value, beside, level, smallest, strength))
    return judged


def _compare(outcomes: Sequence[Outcome], others: Mapping[str, Outcome], alpha: float) -> dict[str, Compared]:
    """Differences to others by attack, over the same resamples, with bounds that hold for all of them at once."""
    pairs = [(one, others[one.row.id]) for one in outcomes if one.row.id in others]
    if not pairs:
        return {}
    values = np.array([one.estimates[one.metric].value - other.estimates[one.metric].value for one, other in pairs])
    samples = np.array([one.samples[one.metric] - other.samples[one.metric] for one, other in pairs])
    samples = samples[:, np.isfinite(samples).all(axis=0)]
    deviations = samples.std(axis=1) if samples.size else np.full(len(values), np.nan)
    standardised = (samples - values[:, None]) / np.maximum(deviations, 1e-12)[:, None]
    largest = standardised.max(axis=0) if samples.size else np.array([np.nan])
    scale = float(np.quantile(largest, 1 - alpha))

    def compared(at: int, one: Outcome, other: Outcome) -> Compared:
        value, deviation = float(values[at]), float(deviations[at])

        def bound(level: float) -> float:
            return value - float(np.quantile(largest, 1 - level * alpha / COMPARED)) * deviation

        difference = estimate(value, samples[at])
        return Compared(other.estimates[one.metric], difference, bound, scale * deviation)

    return {one.row.id: compared(at, one, other) for at, (one, other) in enumerate(pairs)}
