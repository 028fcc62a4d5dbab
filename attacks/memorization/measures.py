"""Four measures of memorization on scrubbed pages with one joint test, as pure functions over a table of pages.

Answers (ACC, ANLS) show what comes out; the likelihood ratio and the exposure show what is in the model although it
does not come out. They are tested together by the largest (max-T), so that four looks cost no more than one.

Sources: privacy-aware-docvqa, section 5.1 (ACC, ANLS). Likelihood ratio against a reference model: Carlini et al. 2021
(Extracting Training Data from Large Language Models), and by user Kandpal et al. 2023 (User Inference Attacks on
Large Language Models). Exposure: Carlini et al. 2019.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from pfl_audit.core.results import Format, Level
from pfl_audit.core.verdict import Budget, level_of
from pfl_audit.metrics.arrays import Bools, Counts, Floats, by_rows, permuted_rows
from pfl_audit.metrics.contrasts import Contrast, area, difference, item_gap, permuted, resampled
from pfl_audit.metrics.intervals import RESAMPLES, Estimate, bootstrap_counts
from pfl_audit.metrics.permutation import PERMUTATIONS, Permuted
from pfl_audit.metrics.power import POWER, smallest_effect

ACC: Final = "ACC gap"
ANLS: Final = "ANLS gap"
RATIO: Final = "AUC of the likelihood ratio"
EXPOSURE: Final = "exposure gap"
FORMATS: Final[dict[str, Format]] = {ACC: "points", ANLS: "points", RATIO: "decimal", EXPOSURE: "bits"}

ENOUGH_PAGES: Final = 30
"""Pages of each class below which a gap of realistic size is not distinguishable from chance."""
LARGEST_GAP: Final = 0.15
"""Gap in ACC that an audit must be able to find, so that it may say "no evidence"."""
LARGEST_AREA: Final = 0.75
"""AUC of the likelihood ratio that it must be able to find, likewise."""
AUDITS = 200
POWER_PERMUTATIONS = 500
_STEPS = 200
"""Shares of members that are tried, evenly between 0 and 1."""
_AT_ONCE = 50
"""Audits that are held at once."""
_UNITS = 10_000
"""Units for which chance is drawn at once."""


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
    """

    name: str
    chance: float
    contrast: Contrast
    over_control: Contrast | None


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
    """

    name: str
    chance: float
    value: Estimate
    over_control: Estimate | None
    p_value: float
    strength: float
    level: Level
    smallest: float | None

    @property
    def explained(self) -> bool:
        """Whether it lies above chance, and the control reaches as much."""
        over = self.over_control
        return over is not None and self.value.low > self.chance and over.low <= 0.0


@dataclass(frozen=True)
class Memory:
    """Memorization of one key.

    Attributes:
        results: Result of every measure that could be taken.
        headline: The strongest of those that were found, else ACC; None where nothing could be measured.
        pages: Number of pages of members and of non-members.
        units: Number of member and of non-member units of privacy.
    """

    results: tuple[Result, ...]
    headline: Result | None
    level: Level
    pages: tuple[int, int]
    units: tuple[int, int]


def measures(pages: pd.DataFrame) -> list[Measure]:
    """Those that the table has the columns for.

    Args:
        pages: From ``table.beside``; at least ``unit``, ``member`` and ``acc``.
    """
    who = Units.of(pages)
    found = []
    for name, column in ((ACC, "acc"), (ANLS, "anls"), (EXPOSURE, "exposure")):
        values, control = _column(pages, column), _column(pages, f"{column}_control")
        if _both(who, values):
            found.append(Measure(name, 0.0, item_gap(*who.totals(values)), _beyond(who, values, control)))
    ratio = _column(pages, "ratio")
    if _both(who, ratio) and np.nanstd(ratio) > 0:  # a model that is its own control has no ratio
        contrast = area(who.means(ratio))
        alone = area(who.means(np.where(np.isnan(ratio), np.nan, -_column(pages, "loss_control"))))
        found.append(Measure(RATIO, 0.5, contrast, difference(contrast, alone)))
    return found


def memory(
    pages: pd.DataFrame,
    budget: Budget,
    rng: np.random.Generator,
    *,
    permutations: int = PERMUTATIONS,
    resamples: int = RESAMPLES,
    powered: bool = True,
) -> Memory:
    """Test whether members' values are remembered, with one budget for all measures.

    Args:
        pages: One row a page, as in ``measures``.
        powered: Whether the smallest effects are computed; without them "no evidence" is not resolved.
    """
    who = Units.of(pages)
    pages_of = (int(pages["member"].sum()), int((~pages["member"].astype(bool)).sum()))
    units_of = (int(who.labels.sum()), int((~who.labels).sum()))
    taken = measures(pages)
    if not taken:
        return Memory((), None, "unresolved", pages=pages_of, units=units_of)
    tested = permuted([measure.contrast for measure in taken], who.labels, rng, permutations)
    smallest = _smallest(pages, who, taken, tested, budget, rng) if powered else {}
    resolved = powered and all(
        smallest[name] is not None and smallest[name] <= most  # type: ignore[operator]
        for name, most in ((ACC, LARGEST_GAP), (RATIO, LARGEST_AREA))
        if name in smallest
    )
    weights = bootstrap_counts(who.labels, rng, resamples).T
    enough = min(pages_of) >= ENOUGH_PAGES
    results = [
        judge(measure, tested, at, who.labels, weights, budget, smallest.get(measure.name), enough, resolved)
        for at, measure in enumerate(taken)
    ]
    first = min(results, key=lambda one: (_ORDER.index(one.level), -one.strength))
    headline = first if first.level in ("leak", "weak") else results[0]
    return Memory(tuple(results), headline, first.level, pages=pages_of, units=units_of)


def judge(
    measure: Measure,
    tested: Permuted,
    at: int,
    labels: Bools,
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
        labels: bool (n,), membership of the units.
        weights: How often each is drawn, (resamples, n).
        smallest: Smallest true value that would have been found.
        enough: As ``level_of`` takes it.
        resolved: Likewise.
    """
    value = resampled(measure.contrast, labels, weights, measure.chance)
    over = resampled(measure.over_control, labels, weights) if measure.over_control else None
    p_value, deviation = float(tested.p_values[at]), float(tested.deviations[at])
    compared = [over.above(0.0)] if over else []
    effects = [value.above(measure.chance)]
    level = level_of([p_value], effects, budget, compared=compared, enough=enough, resolved=resolved)
    strength = float(tested.gaps[at] / deviation) if deviation > 0 else 0.0
    return Result(measure.name, measure.chance, value, over, p_value, strength, level, smallest)


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
            column = "acc" if measure.name == ACC else "anls"
            found[measure.name] = smallest_gap(*who.totals(_column(pages, column)), who.labels, budget.weak, units, rng)
        else:
            value = measure.chance + smallest_effect(critical, deviation)
            found[measure.name] = value if deviation > 0 and (measure.name != RATIO or value <= 1.0) else None
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
    if name not in pages:
        return np.full(len(pages), np.nan)
    return pages[name].to_numpy(dtype=np.float64)


def smallest_gap(
    sums: Floats,
    counts: Floats,
    labels: Bools,
    alpha: float,
    critical: float,
    rng: np.random.Generator,
    power: float = POWER,
) -> float | None:
    """Smallest true gap that a permutation test finds with probability ``power``.

    Audits are drawn: the pages go to members and non-members at random, then a share of the members gives the value
    away on every page. The gap that this makes is the share times what was not right before.

    Args:
        sums: Sum of the scores (0 to 1) of each unit, float (n,).
        counts: Pages of each unit, float (n,).
        labels: bool (n,), membership; both classes.
        critical: Standardised gap that the choice among several measures asks for besides.

    Returns:
        The gap; None where even memory of all members would not be found.
    """
    order = np.tile(np.arange(len(labels), dtype=np.int32), (AUDITS, 1))
    order = rng.permuted(order, axis=1, out=order).T
    drawn = permuted_rows(labels, rng, max(POWER_PERMUTATIONS, int(4 / alpha)))
    known = _first_steps(labels, rng)

    def gaps_of(step: int, start: int) -> Floats:
        some = order[:, start : start + _AT_ONCE]
        pages = counts[some]
        planted = np.where(known[:, start : start + _AT_ONCE] <= step, pages, sums[some])

        def gaps(rows: Bools) -> Floats:
            return _gaps(rows.astype(np.float64), planted, pages)

        return by_rows(gaps, drawn)

    def found(step: int) -> bool:
        gaps = np.concatenate([gaps_of(step, start) for start in range(0, AUDITS, _AT_ONCE)], axis=1)
        beyond = (1.0 + (gaps[1:] >= gaps[0] - 1e-9).sum(axis=0)) / len(gaps) <= alpha
        return float((beyond & (gaps[0] >= critical * gaps[1:].std(axis=0) - 1e-9)).mean()) >= power

    low, high = 0, _STEPS
    if not found(high):
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if found(middle) else (middle, high)
    return high / _STEPS * (1.0 - float(sums.sum() / counts.sum()))


def _first_steps(labels: Bools, rng: np.random.Generator) -> NDArray[np.uint8]:
    """Least share, in steps, with which a unit gives its value away in each audit, (n, AUDITS); others never do."""
    steps = np.arange(_STEPS + 1) / _STEPS
    first = np.empty((len(labels), AUDITS), dtype=np.uint8)
    for start in range(0, len(labels), _UNITS):
        part = slice(start, start + _UNITS)
        first[part] = np.searchsorted(steps, rng.random((len(labels[part]), AUDITS)), side="right")
    first[~labels] = _STEPS + 1
    return first


def _gaps(weights: Floats, sums: Floats, counts: Floats) -> Floats:
    """Difference of means for every row of labels and every audit, float (rows, audits); 0 without a class."""
    others = 1.0 - weights
    with np.errstate(invalid="ignore", divide="ignore"):
        gaps: Floats = np.nan_to_num(weights @ sums / (weights @ counts) - others @ sums / (others @ counts))
    return gaps
