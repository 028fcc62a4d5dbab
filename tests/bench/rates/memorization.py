"""Verdicts on memorization: answers that remember nothing, and gaps of a known size."""

from __future__ import annotations

from functools import cache, partial

import numpy as np

from pfl_audit.attacks.memorization.disclosure import disclosed
from pfl_audit.attacks.memorization.generalisation import reading
from pfl_audit.attacks.memorization.measures import ACC, memory
from pfl_audit.core.power import BASE, FINDINGS, GAPS
from pfl_audit.core.verdict import Budget
from tests.attacks.simulated_answers import numbers, pages, questions
from tests.bench.rates.engine import Design, design
from tests.bench.rates.membership import COMPANIES

WHOLE = Budget.shared(1)
"""The largest share of the budget that a finding may have."""


def remembers(members: int, others: int, audit: int) -> str:
    """Level of noise of all measures of one key, with a control; providers of heavy-tailed sizes, ties."""
    rng = np.random.default_rng([37, audit])
    return memory(pages(rng, members, others), WHOLE, rng, powered=False).level


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
    return memory(asked, Budget.shared(FINDINGS), rng, powered=False).level


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
    return memory(frame, WHOLE, rng, powered=False).level


SIZES = ((20, 20), (10, 90), (90, 10))

DESIGNS: tuple[Design, ...] = (
    *(design(f"memory, null: {one} and {two} companies", partial(remembers, one, two)) for one, two in SIZES),
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
