"""Reconstructions of an attack on a checkpoint, and their evaluation.

Source: cdmi-reconstruction, sections 5.2 and 5.3.
"""

from __future__ import annotations

from dataclasses import dataclass

from pfl_audit.attacks.reconstruction.plan import Chosen
from pfl_audit.attacks.reconstruction.search import Reconstruction
from pfl_audit.attacks.reconstruction.specs import MembershipMetric
from pfl_audit.metrics.arrays import Floats, Integers
from pfl_audit.metrics.intervals import Estimate

SHARES = {"AccAt 1 %": 0.01, "AccAt 5 %": 0.05, "AccAt 100 %": 1.0}
FIRST = 0.10
"""Share of the fields that are called first-ranked."""


@dataclass(frozen=True)
class Attacked:
    """A field with its ground truth and its reconstruction.

    Attributes:
        unit: Provider, or group of near-duplicates, that it belongs to; it is resampled as a whole.
        truth: Ids of the true tokens.
        found: Reconstruction of the field.
    """

    unit: str
    truth: tuple[int, ...]
    found: Reconstruction


@dataclass(frozen=True)
class Compared:
    """A number of the attack and of the baseline.

    Attributes:
        attack: Number of the attack.
        baseline: Number of the same procedure with PUB-MLM alone.
        difference: Attack minus baseline, in the same resamples.
    """

    attack: Estimate
    baseline: Estimate
    difference: Estimate


@dataclass(frozen=True, eq=False)
class Pick:
    """One attempt a field, and the fields in an order. All arrays are by field, as they were given.

    Attributes:
        attempts: int64 (n,), number of the attempt that was kept.
        scores: float64 (n,), membership score of that attempt.
        order: int64 (n,), places of the fields, the most plausible first.
        values: float64 (n, 4), ``measures.NAMES`` of what was kept.
        shares: float64 (n,), i / n.
        acc_at: float64 (n,), AccAt of each share.
        ham_at: float64 (n,), HamAt of each share.
    """

    attempts: Integers
    scores: Floats
    order: Integers
    values: Floats
    shares: Floats
    acc_at: Floats
    ham_at: Floats


@dataclass(frozen=True)
class MultiShot:
    """The multi-shot variant with one membership metric.

    Attributes:
        attack: Attempts that the metric kept, and their curves.
        baseline: Attempts that PUB-MLM alone would have kept.
        scores: ``AccAUC``, ``HamAAC`` and those of SHARES; higher is better.
        first: How much better the first-ranked fields are than all, in the same resamples: ``PR`` and
            ``Hamming similarity`` of the first 10 % minus those of every field.
    """

    attack: Pick
    baseline: Pick
    scores: dict[str, Compared]
    first: dict[str, Estimate]


@dataclass(frozen=True)
class OneShot:
    """The one-shot variant: the first attempt at every field.

    Attributes:
        attack: float64 (n, 4), ``measures.NAMES`` by field.
        baseline: The same of the baseline.
        scores: Means over the fields, by ``measures.NAMES``.
        tokens: Share of right tokens of the attack minus that of the baseline, in the same resamples.
        improvement: IpF (equation 6).
    """

    attack: Floats
    baseline: Floats
    scores: dict[str, Compared]
    tokens: Estimate
    improvement: Estimate


@dataclass(frozen=True)
class Evaluation:
    """Evaluation of one set of fields.

    Attributes:
        units: Number of units with an attacked field.
        one_shot: The first attempts.
        multi_shot: Scores of the multi-shot variant, by membership metric.
    """

    units: int
    fields: int
    one_shot: OneShot
    multi_shot: dict[MembershipMetric, MultiShot]


@dataclass(frozen=True)
class UnitPermutation:
    """Shares of permutations under which the private forms stand out as much as they do: one-sided p-values.

    Attributes:
        tokens: p-value of the share of right tokens over public knowledge, of the first attempts.
        gain: p-value of AccAUC over public knowledge, with the metric that the finding goes by.
        smallest_tokens: Smallest difference of private and new forms in the first that is significant.
        smallest_gain: The same of the second.
    """

    tokens: float
    gain: float
    smallest_tokens: float
    smallest_gain: float


@dataclass(frozen=True)
class CheckpointOutcome:
    """Result of an attack on one checkpoint.

    Attributes:
        chosen: Fields of the forms that it was trained on.
        fields: The same with what was put there.
        private: Scores on them.
        new: Scores on fields of forms that it has never seen, or None.
        permutation: p-values of the permutation test between these two, or None.
    """

    chosen: Chosen
    fields: tuple[Attacked, ...]
    private: Evaluation
    new: Evaluation | None
    permutation: UnitPermutation | None
