"""Four measures of memorization on scrubbed pages with one joint test, as pure functions over a table of pages.

Answers (ACC, ANLS) show what comes out; the likelihood ratio and the exposure show what is in the model although it
does not come out. They are tested together by the largest (max-T), so that four looks cost no more than one.

Sources: privacy-aware-docvqa, section 5.1 (ACC, ANLS). Likelihood ratio against a reference model: Carlini et al. 2021
(Extracting Training Data from Large Language Models), and by user Kandpal et al. 2023 (User Inference Attacks on
Large Language Models). Exposure: Carlini et al. 2019.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from pfl_audit.attacks.memorization.repetition import FEWEST, groups_of
from pfl_audit.core.results import Format, Level
from pfl_audit.core.verdict import Budget, level_of
from pfl_audit.metrics.arrays import Bools, Counts, Floats, Integers
from pfl_audit.metrics.contrasts import Contrast, area, difference, item_gap, permuted, resampled
from pfl_audit.metrics.intervals import Estimate, bootstrap_counts
from pfl_audit.metrics.permutation import PERMUTATIONS, Permuted
from pfl_audit.metrics.power import smallest_effect
from pfl_audit.metrics.smallest_gap import smallest_gap
from pfl_audit.metrics.trend import Trend, trend

ACC: Final = "ACC gap"
ANLS: Final = "ANLS gap"
RATIO: Final = "AUC of the likelihood ratio"
EXPOSURE: Final = "exposure gap"
FORMATS: Final[dict[str, Format]] = {ACC: "points", ANLS: "points", RATIO: "decimal", EXPOSURE: "bits"}
COLUMNS: Final = {ACC: "acc", ANLS: "anls", EXPOSURE: "exposure", RATIO: "ratio"}
BY_REPETITION: Final = (RATIO, EXPOSURE, ACC)
"""Measures by training pages; the first that there is is tested. Tests of all three would hide all else in the joint
test where right answers are rare: in a group of ten the first lies two deviations above chance, the second four.
Tested are values on so many training pages or more: where memorization rises with their number, that finds more than
tests of single groups, and being alike, these tests raise the critical value by a twentieth and not by a seventh."""

ENOUGH_PAGES: Final = 30
"""Pages of each class below which a gap of realistic size is not distinguishable from chance."""
LARGEST_GAP: Final = 0.15
"""Gap in ACC that an audit must be able to find, so that it may say "no evidence"."""
LARGEST_AREA: Final = 0.75
"""AUC of the likelihood ratio that it must be able to find, likewise."""


@dataclass(frozen=True)
class Units:
    """Pages by unit of privacy, in one order.

    Attributes:
        labels: Whether each was trained on, bool (n,).
        codes: Index of each page's unit, int (pages,).
    """

    labels: Bools
    codes: NDArray[np.intp]

    @classmethod
    def of(cls, pages: pd.DataFrame) -> Units:
        """Those of a table with ``unit`` and ``member``."""
        codes, names = pd.factorize(pages["unit"], sort=True)
        labels = np.zeros(len(names), dtype=bool)
        labels[codes] = pages["member"].to_numpy(dtype=bool)
        return cls(labels, codes)

    def totals(self, values: Floats) -> tuple[Floats, Floats]:
        """Sum and number of the values of each unit that are not NaN, float (n,) each."""
        kept = ~np.isnan(values)
        size = len(self.labels)
        sums = np.bincount(self.codes[kept], weights=values[kept], minlength=size)
        return sums.astype(np.float64), np.bincount(self.codes[kept], minlength=size).astype(np.float64)

    def largest(self, values: Floats) -> Floats:
        """Largest value of each unit, float (n,), NaN where it has none."""
        found = np.full(len(self.labels), np.nan)
        np.fmax.at(found, self.codes, values)
        return found

    def means(self, values: Floats) -> Floats:
        """Mean of each unit, float (n,), NaN where it has none."""
        sums, counts = self.totals(values)
        return np.divide(sums, counts, out=np.full(len(sums), np.nan), where=counts > 0)


@dataclass(frozen=True)
class Measure:
    """A measure of the test.

    Attributes:
        chance: Its value without memory.
        contrast: How far it lies above that.
        over_control: How far it lies above the control, or None without one.
        least: Smallest group of members that counts, by number of training pages.
        training_pages: Fewest training pages that hold their values.
    """

    name: str
    chance: float
    contrast: Contrast
    over_control: Contrast | None
    least: int = 1
    training_pages: int | None = None


@dataclass(frozen=True)
class Result:
    """A measure with its test results.

    Attributes:
        chance: Its value without memory.
        value: With its interval.
        over_control: Its distance to the control's, None without one.
        p_value: p-value of the permutation test, adjusted for the choice among the measures.
        strength: Distance to chance in deviations under permutation.
        level: Level by this measure alone.
        smallest: Smallest true value that four of five such audits would have found, None where none would be.
        training_pages: Fewest training pages that hold the values that it is about; None where it is about all.
        units: Number of members.
    """

    name: str
    chance: float
    value: Estimate
    over_control: Estimate | None
    p_value: float
    strength: float
    level: Level
    smallest: float | None
    training_pages: int | None = None
    units: int = 0

    @property
    def format(self) -> Format:
        """Format of the printed number."""
        return next(form for name, form in FORMATS.items() if self.name.startswith(name))

    @property
    def explained(self) -> bool:
        """Whether it lies above chance, and the control reaches as much."""
        over = self.over_control
        return over is not None and self.value.low > self.chance and over.low <= 0.0


@dataclass(frozen=True)
class Repeated:
    """Memorization of the values that stand on a range of numbers of training pages.

    Attributes:
        pages: The range, such as "5 to 19".
        units: Number of members.
        values: Measure to its value on these members and all non-members.
    """

    pages: str
    units: int
    values: dict[str, Estimate]


@dataclass(frozen=True)
class Memory:
    """Memorization of one key.

    Attributes:
        results: Result of every measure that could be taken, followed by those of repeated values.
        headline: The strongest of those that were found, else ACC; None where nothing could be measured.
        pages: Number of pages of members and of non-members.
        units: Number of member and of non-member units of privacy.
        repeated: The same by number of training pages; empty where it is not known.
        trend: Whether the first measure of ``BY_REPETITION`` rises with it, or None.
    """

    results: tuple[Result, ...]
    headline: Result | None
    level: Level
    pages: tuple[int, int]
    units: tuple[int, int]
    repeated: tuple[Repeated, ...] = ()
    trend: Trend | None = None


def measures(pages: pd.DataFrame) -> list[Measure]:
    """Those that the table has the columns for.

    Args:
        pages: From ``scores.beside``; at least ``unit``, ``member`` and ``acc``.
    """
    who = Units.of(pages)
    found = []
    for name in (ACC, ANLS, EXPOSURE):
        values, control = (_column(pages, f"{COLUMNS[name]}{end}") for end in ("", "_control"))
        if _both(who, values):
            found.append(Measure(name, 0.0, item_gap(*who.totals(values)), _beyond(who, values, control)))
    ratio = _column(pages, "ratio")
    if _both(who, ratio) and np.nanstd(ratio) > 0:  # a model that is its own control has no ratio
        contrast = area(who.means(ratio))
        alone = area(who.means(np.where(np.isnan(ratio), np.nan, -_column(pages, "loss_control"))))
        found.append(Measure(RATIO, 0.5, contrast, difference(contrast, alone)))
    return found


def memory(pages: pd.DataFrame, budget: Budget, rng: np.random.Generator) -> Memory:
    """Test whether members' values are remembered, with one budget for all measures.

    Args:
        pages: One row a page, as in ``measures``; with ``held``, the number of training pages that hold the value, by
            this number, too.
    """
    who = Units.of(pages)
    pages_of = (int(pages["member"].sum()), int((~pages["member"].astype(bool)).sum()))
    units_of = (int(who.labels.sum()), int((~who.labels).sum()))
    taken = measures(pages)
    if not taken:
        return Memory((), None, "unresolved", pages=pages_of, units=units_of)
    held = who.largest(_column(pages, "held"))
    groups, roles = groups_of(held, who.labels)
    first = next(measure for name in BY_REPETITION for measure in taken if measure.name == name)
    for least, start in enumerate([*groups][1:], 2):
        name = f"{first.name} of values on {start} or more training pages"
        taken.append(replace(first, name=name, least=least, training_pages=start))
    contrasts, least_of = [measure.contrast for measure in taken], [measure.least for measure in taken]
    tested = permuted(contrasts, roles, rng, PERMUTATIONS, least_of)
    smallest = _smallest(pages, who, taken, tested, budget, rng)
    resolved = all(
        smallest[name] is not None and smallest[name] <= most  # type: ignore[operator]
        for name, most in ((ACC, LARGEST_GAP), (RATIO, LARGEST_AREA))
        if name in smallest
    )
    weights = bootstrap_counts(who.labels, rng).T
    enough = min(pages_of) >= ENOUGH_PAGES
    results = [
        judge(measure, tested, at, roles, weights, budget, smallest.get(measure.name), enough, resolved)
        for at, measure in enumerate(taken)
    ]
    strongest = min(results, key=lambda one: (_ORDER.index(one.level), -one.strength))
    headline = strongest if strongest.level in ("leak", "weak") else results[0]
    repeated = []
    for at, text in enumerate(groups.values(), 1):
        alone = np.where(np.isin(roles, (0, at)), roles, -1)
        shown = [one for one in taken if one.name in BY_REPETITION]
        values = {one.name: resampled(one.contrast, alone, weights, one.chance) for one in shown}
        repeated.append(Repeated(text, int((roles == at).sum()), values))
    scores = who.means(_column(pages, COLUMNS[first.name]))
    known = who.labels & ~np.isnan(held) & ~np.isnan(scores)
    rising = trend(held[known], scores[known], rng, PERMUTATIONS) if known.sum() >= FEWEST else None
    return Memory(tuple(results), headline, strongest.level, pages_of, units_of, tuple(repeated), rising)


def judge(
    measure: Measure,
    tested: Permuted,
    at: int,
    labels: Bools | Integers,
    weights: Floats | Counts,
    budget: Budget,
    smallest: float | None,
    enough: bool,
    resolved: bool,
) -> Result:
    """Interval and level of a measure.

    Args:
        tested: Permutation test of all measures.
        at: Place of the measure among them.
        labels: Membership of the units, bool (n,); or groups, int (n,), 0 for non-members.
        weights: How often each is drawn, (resamples, n).
        smallest: Smallest true value that would have been found.
        enough: As ``level_of`` takes it.
        resolved: Likewise.
    """
    least = measure.least
    value = resampled(measure.contrast, labels, weights, measure.chance, least)
    over = resampled(measure.over_control, labels, weights, least=least) if measure.over_control else None
    p_value, deviation = float(tested.p_values[at]), float(tested.deviations[at])
    compared = [over.above(0.0)] if over else []
    effects = [value.above(measure.chance)]
    level = level_of([p_value], effects, budget, compared=compared, enough=enough, resolved=resolved)
    strength = float(tested.gaps[at] / deviation) if deviation > 0 else 0.0
    about = (measure.training_pages, int((labels >= least).sum()))
    return Result(measure.name, measure.chance, value, over, p_value, strength, level, smallest, *about)


_ORDER: tuple[Level, ...] = ("leak", "weak", "none", "unresolved")


def _smallest(
    pages: pd.DataFrame,
    who: Units,
    taken: Sequence[Measure],
    tested: Permuted,
    budget: Budget,
    rng: np.random.Generator,
) -> dict[str, float | None]:
    """Smallest true value of each measure that would have been found at least as a weak sign."""
    units = float(np.quantile(tested.largest, 1 - budget.weak))
    found: dict[str, float | None] = {}
    for measure, critical, deviation in zip(
        taken, tested.critical(budget.weak).tolist(), tested.deviations.tolist(), strict=True
    ):
        if measure.name in (ACC, ANLS):
            values = _column(pages, COLUMNS[measure.name])
            found[measure.name] = smallest_gap(*who.totals(values), who.labels, budget.weak, units, rng)
        else:
            value = measure.chance + smallest_effect(critical, deviation)
            found[measure.name] = value if deviation > 0 and (measure.chance == 0.0 or value <= 1.0) else None
    return found


def _beyond(who: Units, values: Floats, control: Floats) -> Contrast | None:
    """The gap minus the control's, over the pages that both have."""
    both = ~np.isnan(values) & ~np.isnan(control)
    if not _both(who, np.where(both, values, np.nan)):
        return None
    own, others = (item_gap(*who.totals(np.where(both, part, np.nan))) for part in (values, control))
    return difference(own, others)


def _both(who: Units, values: Floats) -> bool:
    """Whether members and non-members both have a value."""
    counts = who.totals(values)[1]
    return bool(counts[who.labels].any() and counts[~who.labels].any())


def _column(pages: pd.DataFrame, name: str) -> Floats:
    return pages.reindex(columns=[name])[name].to_numpy(dtype=np.float64)
