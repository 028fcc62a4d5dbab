"""Verdicts on memorization: answers that remember nothing, and gaps of a known size."""

from __future__ import annotations

from functools import cache, partial

import numpy as np
from scipy.optimize import brentq

from pfl_audit.attacks.memorization.disclosure import disclosed
from pfl_audit.attacks.memorization.generalisation import reading
from pfl_audit.attacks.memorization.measures import ACC, memory
from pfl_audit.core.power import BASE, FINDINGS, GAPS
from pfl_audit.core.verdict import Budget
from tests.attacks.simulated_answers import numbers, pages, questions, repeated
from tests.bench.rates.engine import Design, design
from tests.bench.rates.membership import COMPANIES

WHOLE = Budget.shared(1)
"""The largest share of the budget that a finding may have."""


def remembers(members: int, others: int, audit: int) -> str:
    """Level of noise of all measures of one key, with a control; providers of heavy-tailed sizes, ties."""
    rng = np.random.default_rng([37, audit])
    return memory(pages(rng, members, others), WHOLE, rng).level


def reads(members: int, others: int, audit: int) -> str:
    """Level of new pages of both classes that are read alike; providers of heavy-tailed sizes."""
    rng = np.random.default_rng([41, audit])
    return reading(questions(rng, members, others, heavy=True), None, WHOLE, rng).level


def discloses(digits: int, audit: int) -> str:
    """Level of random answers, held against random ids."""
    rng = np.random.default_rng([43, audit])
    secrets, answers = (numbers(rng, min(most, 10**digits // part), digits) for most, part in ((1000, 2), (400, 4)))
    return disclosed(answers, secrets, (), len(answers), WHOLE, rng).level


def shares_a_beginning(audit: int) -> str:
    """Level of answers and ids that all begin with 2024, which the model has learnt; what follows is drawn."""
    rng = np.random.default_rng([8, audit])
    secrets, answers = ([f"2024{end}" for end in numbers(rng, count, 4)] for count in (800, 200))
    return disclosed(answers, secrets, (), len(answers), WHOLE, rng).level


def found(gap: float, companies: int, audit: int) -> str:
    """Level of an audit with a control where members' values are given back more often by ``gap``.

    Two pages a provider, whose answers are right together; the control gives none back. The answers alone count.
    """
    rng = np.random.default_rng([47, audit])
    frame = pages(rng, companies, companies, known=BASE / 0.9, more=gap / 0.9, heavy=False)
    asked = frame[["page", "unit", "member", "acc", "acc_control"]]
    return memory(asked, Budget.shared(FINDINGS), rng).level


_COLUMNS = ["page", "unit", "member", "clues", "acc"]


@cache
def _smallest(others: int) -> float:
    first = pages(np.random.default_rng(0), 100, others, known=0.0, heavy=False)[_COLUMNS]
    found = memory(first, WHOLE, np.random.default_rng(0)).results
    smallest = next(one.smallest for one in found if one.name == ACC)
    assert smallest is not None
    return smallest


def at_the_smallest_effect(others: int, audit: int) -> str:
    """Level where memory of the smallest effect that an audit of noise states is planted into new answers."""
    rng = np.random.default_rng([5, audit])
    frame = pages(rng, 100, others, known=0.0, heavy=False)[_COLUMNS]
    given = set(rng.choice(100, size=rng.binomial(100, _smallest(others)), replace=False))
    frame["acc"] = [float(name[1:].isdigit() and int(name[1:]) in given) for name in frame["unit"]]
    return memory(frame, WHOLE, rng).level


@cache
def _shift(auc: float) -> float:
    """What is added to the likelihood ratios of half of the companies, so that they have an AUC."""
    frame = pages(np.random.default_rng(3), 4000, 4000, heavy=False)
    scores = frame.groupby("unit")["ratio"].mean().to_numpy()
    inside, outside = np.sort(scores[:4000]), np.sort(scores[4000:])

    def reached(shift: float) -> float:
        return float(np.searchsorted(outside, inside + shift).mean()) / len(outside) - auc

    return float(brentq(reached, -10.0, 10.0))


def repeats(
    sizes: tuple[int, ...], others: int, heavy: bool, budget: Budget, areas: tuple[float, ...], known: bool, audit: int
) -> str:
    """Level where members' values stand on 1, 2, 5 and 20 training pages.

    Args:
        sizes: Members of each number of training pages.
        others: Non-members.
        heavy: Providers have sizes with a heavy tail, and those with most pages most training pages.
        areas: AUC of the likelihood ratio that is planted in each number.
        known: Whether the audit has the numbers of training pages.
    """
    rng = np.random.default_rng([53, audit])
    frame = repeated(rng, sizes, others=others, shifts=[_shift(one) for one in areas], heavy=heavy)
    frame = frame if known else frame.drop(columns="held")
    return memory(frame, budget, rng).level


def trends(sizes: tuple[int, ...], heavy: bool, areas: tuple[float, ...], audit: int) -> str:
    """Whether the score rises with the number of training pages, at 5 %."""
    rng = np.random.default_rng([59, audit])
    frame = repeated(rng, sizes, others=5, shifts=[_shift(one) for one in areas], heavy=heavy)
    found = memory(frame, WHOLE, rng).trend
    return "trend" if found is not None and found.p_value <= 0.05 else "none"


NOTHING = (0.5,) * 4
PLANTED = (0.61, 0.5, 0.79, 0.75)
"""AUC of names that were planted on 1, 5 and 20 training pages of a company, measured on a VT5; none stands on two."""
NUMBERS = {
    "equal numbers": ((10,) * 4, 40, False),
    "unequal numbers": ((40, 10, 5, 5), 30, True),
    "few members": ((3, 2, 5, 5), 60, True),
}
"""Members of each number of training pages, non-members, and whether those with most pages stand on most."""

SIZES = ((20, 20), (10, 90), (90, 10))

DESIGNS: tuple[Design, ...] = (
    *(design(f"memory, null: {one} and {two} companies", partial(remembers, one, two)) for one, two in SIZES),
    *(
        design(f"repetition, null: {name}", partial(repeats, *case, WHOLE, NOTHING, True))
        for name, case in NUMBERS.items()
    ),
    *(
        design(f"trend, null: {name}", partial(trends, sizes, heavy, NOTHING), {"trend": 0.05})
        for name, (sizes, _, heavy) in NUMBERS.items()
    ),
    *(
        design(
            f"repetition, power: {size} each on 1, 5 and 20 pages, {findings} findings, numbers {said}",
            partial(repeats, (size, 0, size, size), 3 * size, False, Budget.shared(findings), PLANTED, said == "known"),
            {},
            200,
        )
        for size in (10, 20)
        for findings in (1, FINDINGS)
        for said in ("known", "unknown")
    ),
    *(
        design(
            f"repetition, power: 40 on 1 page, 10 on 20, AUC {auc}, numbers {said}",
            partial(repeats, (40, 0, 0, 10), 50, False, WHOLE, (0.5, 0.5, 0.5, auc), said == "known"),
            {},
            200,
        )
        for auc in (0.75, 0.85)
        for said in ("known", "unknown")
    ),
    *(
        design(
            f"trend, power: {size} each on 1, 5 and 20 pages",
            partial(trends, (size, 0, size, size), False, PLANTED),
            {},
            200,
        )
        for size in (10, 20)
    ),
    *(design(f"reading, null: {one} and {two} companies", partial(reads, one, two)) for one, two in SIZES[:2]),
    *(design(f"unprompted, null: ids of {digits} digits", partial(discloses, digits)) for digits in (5, 3)),
    design("unprompted, null: ids that begin alike", shares_a_beginning),
    *(
        design(
            f"memory, power: at the smallest effect, 100 and {others}",
            partial(at_the_smallest_effect, others),
            {},
            200,
            {"weak": 0.7},
        )
        for others in (30, 100)
    ),
    *(
        design(f"memory, power: gap {gap:.0%}, {size} a class", partial(found, gap, size), {}, 200)
        for size in COMPANIES
        for gap in GAPS
    ),
)
