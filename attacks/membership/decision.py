"""One finding from many attacks, by one test: of the attacks that were named beforehand, the largest gap.

The statistic of an attack is the AUC of its score less that of the same attack on a control, by company, with what the
documents explain taken off; the labels are arranged as the documents allow (``basis``, ``metrics.relabelling``). The
largest standardised gap of the attacks is compared with the largest under each arrangement (max-T, Westfall and Young
1993), so that what holds for one holds for all levels of access at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import compress
from typing import Final

import numpy as np
from scipy.stats import norm, rankdata

from pfl_audit.attacks.membership.basis import Basis
from pfl_audit.attacks.membership.evaluation import Outcome, enough
from pfl_audit.attacks.membership.rows import ACCESS
from pfl_audit.core.results import Level
from pfl_audit.core.verdict import Budget, level_of
from pfl_audit.metrics import ranking
from pfl_audit.metrics.intervals import Estimate, bootstrap_counts, estimate
from pfl_audit.metrics.permutation import PERMUTATIONS, compare
from pfl_audit.metrics.power import smallest_effect

LARGEST_UNSEEN: Final = 0.70
"""Balanced accuracy (or AUC) that the audit must have been able to find before it says "no evidence"."""
_RANK: Final[tuple[Level, ...]] = ("leak", "weak", "unresolved", "none")


@dataclass(frozen=True)
class Judged:
    """An attack with its test results and level.

    Attributes:
        outcome: On the model under audit.
        control: The same attack on the control; None where its score subtracts the control already, or without one.
        difference: AUC of the statistic: 0.5 where the attack gives no more than control and documents.
        p_value: Share of the arrangements whose largest gap is as large.
        level: Level of this attack, by its p-value.
        smallest: Smallest AUC of the attack's own score that four of five such audits would have found, at the level of
            a weak sign.
        strength: Its gap in standard deviations under the arrangements.
        refusal: Why nothing is concluded from it, or None.
    """

    outcome: Outcome
    control: Outcome | None
    difference: Estimate
    p_value: float
    level: Level
    smallest: float
    strength: float
    refusal: str | None

    @property
    def found(self) -> Estimate:
        """Its metric."""
        return self.outcome.estimates[self.outcome.metric]

    @property
    def order(self) -> tuple[bool, int, float]:
        """Those that can conclude first, then the worst level, then the strongest."""
        return self.refusal is not None, _RANK.index(self.level), -self.strength


@dataclass(frozen=True)
class Decision:
    """Decision on provider membership over all attacks.

    Attributes:
        by_access: Tested attacks of each level of access, strongest first; levels from the least access.
        strongest: The attack that the finding rests on.
        untested: Attacks that were not named beforehand: their numbers are reported, and decide nothing.
        critical: Standardised gap from which on one attack alone would be a leak, and one of these.
    """

    by_access: dict[str, tuple[Judged, ...]]
    strongest: Judged
    untested: tuple[Outcome, ...]
    critical: tuple[float, float]

    @property
    def level(self) -> Level:
        """Level of the finding."""
        return self.strongest.level


def named(outcomes: Sequence[Outcome], control: str | None) -> list[Outcome]:
    """Attacks that decide: of each level of access those that were named beforehand, else all; and other packages'.

    Args:
        control: Model whose scores are subtracted, or None.
    """
    rows = [one.row for one in outcomes]
    settled = {row.access for row in rows if control in row.decides}
    chosen = [row.kind == "external" or (control in row.decides) == (row.access in settled) for row in rows]
    return [*compress(outcomes, chosen)]


def decide_membership(
    outcomes: Sequence[Outcome],
    control: Mapping[str, Outcome],
    basis: Basis,
    budget: Budget,
    rng: np.random.Generator,
) -> Decision:
    """Judge attacks on the same providers together, by the draw of known providers that comes first.

    Given who is known, every arrangement of the others' labels is tested with what was learnt from the known, so that
    nothing has to be learnt again.

    Args:
        outcomes: One an attack, of one T_s, evaluated with the same seeds.
        control: Id of an attack to the same attack on the control, over the same providers.
        basis: What they are held against.
        budget: Error budget of the finding.
        rng: Draws the arrangements and the bootstrap.
    """
    tested = named(outcomes, None if basis.drawn else basis.subtracted)
    beside = [control.get(one.row.id) if basis.subtracts(one.row.reference) else None for one in tested]
    scores = [
        basis.statistic(one.trials[0].order, other.trials[0].order if other else None)
        for one, other in zip(tested, beside, strict=True)
    ]
    drawn = basis.relabelling
    permuted = compare(np.array([2.0 * rankdata(each) / len(each) for each in scores]), drawn.draw(rng, PERMUTATIONS))
    critical = permuted.critical(budget.weak) / 2
    counts = bootstrap_counts(basis.labels, rng, groups=drawn.groups)
    judged = []
    for at, (one, other) in enumerate(zip(tested, beside, strict=True)):
        sweep = ranking.sweep(scores[at], basis.labels)
        difference = estimate(float(permuted.gaps[at]) / 2 + 0.5, sweep.resampled(counts)[0])
        area = 0.5 + smallest_effect(float(critical[at]), float(difference.samples.std()))
        # Of the statistic. The score itself has a deviation of one, and both are taken as normal.
        smallest = float(norm.cdf(norm.ppf(area) * scores[at].std())) if area < 1.0 else 1.0
        refusal = basis.refusal(one.row.reference)
        if refusal is None and other is None and basis.subtracts(one.row.reference):
            refusal = f"{one.row.title} has no score of the control to subtract"
        level = level_of(
            [float(permuted.p_values[at])],
            [],
            budget,
            enough=enough(basis.labels) and refusal is None,
            resolved=smallest <= LARGEST_UNSEEN,
        )
        strength = float(permuted.scaled[at])
        judged.append(Judged(one, other, difference, float(permuted.p_values[at]), level, smallest, strength, refusal))
    judged.sort(key=lambda one: one.order)
    by_access = {access: tuple(one for one in judged if one.outcome.row.access == access) for access in ACCESS}
    return Decision(
        {access: found for access, found in by_access.items() if found},
        judged[0],
        tuple(one for one in outcomes if one not in tested),
        (float(norm.isf(budget.leak)), float(np.quantile(permuted.largest, 1 - budget.leak))),
    )
