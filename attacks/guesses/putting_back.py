"""Fields put back within k guesses, by an attack and by a public model: shares, tests, and the level of the finding.

A field is a value that was taken off a document, and a unit what intervals go by, such as the provider. The attack must
put back more than the public model with as many guesses does (sign-flip test over units; McNemar's where a unit is one
field), and more so on private documents than on new ones (permutation of units).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import ceil, comb

import numpy as np
import pandas as pd

from pfl_audit.attacks.guesses.field import Guessed, Occurrences
from pfl_audit.attacks.guesses.resamples import Resampled, up_to_value
from pfl_audit.core.results import Level
from pfl_audit.core.verdict import Budget, at_most_weak, level_of
from pfl_audit.metrics.arrays import Floats
from pfl_audit.metrics.contrasts import item_gap, permuted, resampled
from pfl_audit.metrics.intervals import RESAMPLES, Estimate, bootstrap_counts, estimate
from pfl_audit.metrics.permutation import PERMUTATIONS, sign_flip

FEWEST_UNITS = 10
"""Units with a field on either side below which nothing is decided."""
FEWEST_DIFFERENT = 5
"""Units on which attack and public model differ below which a finding is a weak sign at most."""


@dataclass(frozen=True)
class Shares:
    """Shares of some fields that are put back within k guesses.

    A search of the attack that was cut off counts as a miss, one of the public model as a hit where it may be one.

    Attributes:
        fields: Number of fields.
        units: Number of their units.
        attack: Share by the attack.
        public: Share by the public model with as many guesses.
        difference: The first minus the second, in the same resamples.
    """

    fields: int
    units: int
    attack: Estimate
    public: Estimate
    difference: Estimate


@dataclass(frozen=True)
class PutBack:
    """What k guesses put back, and the tests of it.

    Attributes:
        guesses: k.
        private: Shares of private fields.
        new: Shares of fields of new documents, or None without any.
        different: Private units on which attack and public model differ.
        sign_flip: One-sided p-value that the attack puts back no more than the public model.
        excess: Difference of private fields minus that of new ones, or None.
        permutation: One-sided p-value that it is no larger on private than on new documents, or None.
    """

    guesses: int
    private: Shares
    new: Shares | None
    different: int
    sign_flip: float
    excess: Estimate | None
    permutation: float | None

    @property
    def units(self) -> int:
        """Number of units on the side that has fewer."""
        return min(some.units for some in (self.private, self.new) if some is not None)

    def smallest(self, alpha: float) -> int | None:
        """Fewest fields that would have been found at a level if none were put back otherwise.

        They are of as many units as there are: each of another one, or more than the units, spread evenly over them.

        Returns:
            None where all fields together would not have been found.
        """
        new, private = self.new.units if self.new is not None else 0, self.private
        for count in range(FEWEST_DIFFERENT, private.units + 1):
            # All of them are private units: as likely by permutation as drawing only these from all units.
            drawn = comb(private.units, count) / comb(private.units + new, count) if new else 0.0
            if max(0.5**count, drawn) > alpha:
                continue
            if _missed(private, count) <= alpha:
                return count
            if count == private.units:  # the public model reaches a share x of all with (1 - x) to the power of these
                return max(count + 1, ceil(private.fields * (1.0 - float(alpha ** (1 / private.units)))))
        return None

    def level(self, budget: Budget) -> Level:
        """Level of the finding, by the one rule for findings."""
        p_values, effects = [self.sign_flip], [self.private.difference.above(0.0)]
        if self.permutation is not None and self.excess is not None:
            p_values.append(self.permutation)
            effects.append(self.excess.above(0.0))
        resolved = self.smallest(budget.weak) is not None
        level = level_of(p_values, effects, budget, enough=self.units >= FEWEST_UNITS, resolved=resolved)
        certain = self.permutation is not None and self.different >= FEWEST_DIFFERENT
        return level if certain else at_most_weak(level)


@dataclass(frozen=True)
class Outcome:
    """How many guesses each field takes.

    Attributes:
        private: Fields of documents that the target was trained on.
        new: Those of documents that it has never seen.
        occurrences: Other occurrences of the values of the private fields.
        secrets: What guesses put back of secrets, by number of guesses; empty where there is no private one.
        every: The same of all fields.
    """

    private: tuple[Guessed, ...]
    new: tuple[Guessed, ...]
    occurrences: tuple[Occurrences, ...]
    secrets: dict[int, PutBack]
    every: dict[int, PutBack]


def outcome_of(
    private: Sequence[Guessed],
    new: Sequence[Guessed],
    occurrences: Sequence[Occurrences],
    guesses: int,
    rng: Callable[[str, int], np.random.Generator],
) -> Outcome:
    """What guesses put back of secrets, and of all fields.

    Args:
        private: As ``put_back`` takes them.
        new: Likewise.
        occurrences: Other occurrences of the values of the private fields.
        guesses: Most guesses.
        rng: Name of the fields and number of guesses to a generator.
    """

    def counted(what: str, here: Sequence[Guessed], there: Sequence[Guessed]) -> dict[int, PutBack]:
        return {k: put_back(here, there, k, rng(what, k)) for k in reported(guesses)} if here else {}

    secrets = [[field for field in fields if field.secret] for fields in (private, new)]
    return Outcome(
        tuple(private),
        tuple(new),
        tuple(occurrences),
        counted("secrets", secrets[0], secrets[1]),
        counted("every field", private, new),
    )


def put_back(
    private: Sequence[Guessed],
    new: Sequence[Guessed],
    guesses: int,
    rng: np.random.Generator,
    *,
    resamples: int = RESAMPLES,
    permutations: int = PERMUTATIONS,
) -> PutBack:
    """Compare the attack with the public model, and private with new documents.

    Args:
        private: Fields of documents that the target was trained on; one at least.
        new: Fields of documents that it has never seen.
        guesses: k.

    Raises:
        ValueError: There is no private field.
    """
    ours = _shares(private, guesses, rng, resamples)
    gaps = _by_unit(private, guesses)
    different, p_value = int((gaps["sum"] != 0).sum()), sign_flip(gaps["sum"].tolist())
    if not new:
        return PutBack(guesses, ours, None, different, p_value, None, None)
    both = pd.concat([gaps, _by_unit(new, guesses)])
    labels = np.arange(len(both)) < len(gaps)
    contrast = item_gap(*both.to_numpy(dtype=np.float64).T)
    test = permuted([contrast], labels, rng, permutations)
    weights = bootstrap_counts(labels, rng, resamples).T
    excess = resampled(contrast, labels, weights)
    return PutBack(
        guesses,
        ours,
        _shares(new, guesses, rng, resamples),
        different,
        p_value,
        excess,
        float(test.p_values[0]),
    )


def _missed(private: Shares, count: int) -> float:
    """Level at which the bound of the difference begins above 0, of so many fields that are each of another unit.

    A resample draws a binomial number of these fields. Of the public model, which puts none back, draws are from
    Beta(1, units) (``all_or_nothing``), and at or above a share x with the chance (1 - x) to the power of the units.
    With many fields a unit a few of them are a small share, which the public model may reach as well.
    """
    from scipy.stats import binom

    drawn = np.arange(private.units + 1)
    chances = binom.pmf(drawn, private.units, count / private.units)
    return float(chances @ (1.0 - drawn / private.fields) ** private.units)


def _shares(fields: Sequence[Guessed], guesses: int, rng: np.random.Generator, resamples: int) -> Shares:
    drawn = Resampled([field.unit for field in fields], rng, resamples)
    found = np.array([tuple(map(float, _hits(field, guesses))) for field in fields])

    def statistic(weights: Floats) -> Floats:
        return weights @ found / weights.sum(axis=1, keepdims=True)

    value, samples = drawn.statistic(statistic)
    attack, public = (drawn.share(estimate(value[at], samples[:, at])) for at in (0, 1))
    return Shares(len(fields), drawn.units, attack, public, up_to_value(attack.minus(public)))


def _by_unit(fields: Sequence[Guessed], guesses: int) -> pd.DataFrame:
    """Hits of the attack minus those of the public model (``sum``), and fields (``count``), a row a unit."""
    gaps = [int(attack) - int(public) for attack, public in (_hits(field, guesses) for field in fields)]
    return pd.Series(gaps).groupby([field.unit for field in fields], sort=False).agg(["sum", "count"])


def _hits(field: Guessed, guesses: int) -> tuple[bool, bool]:
    return field.attack.within(guesses), field.public.possibly_within(guesses)


def reported(guesses: int) -> Iterator[int]:
    """Numbers of guesses that are reported: 1, 8, and the one that the finding goes by."""
    yield from sorted({1, 8, guesses} & set(range(guesses + 1)))
