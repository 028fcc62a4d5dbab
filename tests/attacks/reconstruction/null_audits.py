"""Audits of forms that no model has seen: how often they say that values were put back, or forms remembered.

Fields of easy companies, and of easy groups of near-duplicates, come back far more often than others, by the attack and
at times by the public model. No form was trained on, so that every finding is a false alarm.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from pfl_audit.attacks.guesses.field import Guessed, Rank
from pfl_audit.attacks.guesses.putting_back import put_back
from pfl_audit.attacks.reconstruction.evaluation import METRICS, evaluate
from pfl_audit.attacks.reconstruction.finding import memory_level
from pfl_audit.attacks.reconstruction.outcomes import Attacked
from pfl_audit.attacks.reconstruction.search import Guess, Reconstruction
from pfl_audit.attacks.reconstruction.units import permute_units
from pfl_audit.core.results import Level
from pfl_audit.core.verdict import Budget

FINDINGS = 3
TRUTH = (1, 2, 3, 4)
FIELDS = 3
RANKING: Final = {"target perplexity": METRICS["target perplexity"]}
FOUND, LOST = Rank(0, False, 1), Rank(64, False, 1)


@dataclass(frozen=True)
class Receipt:
    """A form: company, client of the company, and group of near-duplicates."""

    company: int
    client: int
    group: int


def receipts(count: int, rng: np.random.Generator) -> list[Receipt]:
    """Companies of one form to a dozen; a third of the forms of a company repeat one before."""
    made: list[Receipt] = []
    company = group = 0
    while len(made) < count:
        size = int(rng.geometric(0.25))
        for at in range(min(size, count - len(made))):
            group += at == 0 or rng.random() > 1 / 3
            made.append(Receipt(company, company // 3, group))
        company += 1
    return made


Case = Callable[[np.random.Generator], tuple[list[Receipt], np.ndarray, Callable[[Receipt], str]]]
"""Forms, which of them are private, and the unit of each."""


def _dealt(unit: Callable[[Receipt], int], of: Callable[[Receipt], str], count: int = 150) -> Case:
    def case(rng: np.random.Generator) -> tuple[list[Receipt], np.ndarray, Callable[[Receipt], str]]:
        made = receipts(count, rng)
        names = sorted({unit(one) for one in made})
        side = dict(zip(names, rng.random(len(names)) < 0.5, strict=True))
        return made, np.array([side[unit(one)] for one in made]), of

    return case


def _few(rng: np.random.Generator) -> tuple[list[Receipt], np.ndarray, Callable[[Receipt], str]]:
    made = [Receipt(number, number, number) for number in range(22)]
    return made, rng.permutation(np.arange(22) < 12), lambda one: str(one.group)


def _random(rng: np.random.Generator) -> tuple[list[Receipt], np.ndarray, Callable[[Receipt], str]]:
    made = receipts(150, rng)
    return made, rng.random(len(made)) < 0.5, lambda one: str(one.company)


CASES: Final[dict[str, Case]] = {
    "random": _random,
    "by company": _dealt(lambda one: one.company, lambda one: str(one.company)),
    "by group": _dealt(lambda one: one.group, lambda one: str(one.group)),
    "by client": _dealt(lambda one: one.client, lambda one: str(one.company)),
    "12 against 10": _few,
}


@dataclass(frozen=True)
class Field:
    """What an attack and public knowledge make of a field."""

    attack: Rank
    public: Rank
    truth: tuple[int, ...]
    tried: Reconstruction


Draw = Callable[[str, list[Receipt], np.random.Generator], list[list[Field]]]
"""Case, forms and chance to the fields of each form."""


def easy_companies(case: str, made: list[Receipt], rng: np.random.Generator) -> list[list[Field]]:
    """Scores that are drawn: forms of one company, or of one group, are put back together."""
    by_group = case == "by group"
    names = sorted({one.group if by_group else one.company for one in made})
    ease = dict(zip(names, np.where(rng.random(len(names)) < 0.2, 0.7, 0.03), strict=True))
    drawn = []
    for one in made:
        fields = []
        for _ in range(FIELDS):
            right = rng.random() < ease[one.group if by_group else one.company]
            guessable = rng.random() < (0.2 if right else 0.02)
            guess, public = _guess(right, rng), _guess(guessable, rng)
            ranks = FOUND if right else LOST, FOUND if guessable else LOST
            fields.append(Field(*ranks, TRUTH, Reconstruction("form", "f", (guess,), (public,))))
        drawn.append(fields)
    return drawn


def levels(
    case: str, audit: int, *, units: bool = True, resamples: int = 300, draw: Draw = easy_companies
) -> list[Level]:
    """Levels of guesses, one attempt and several, at the budget of an audit of these three.

    Args:
        units: Whether units are what they should be; else each form is one.
    """
    rng = np.random.default_rng([17, audit])
    made, private, unit = CASES[case](rng)
    sides: tuple[list[Guessed], list[Guessed]] = ([], [])
    tried: tuple[list[Attacked], list[Attacked]] = ([], [])
    for number, (one, own, fields) in enumerate(zip(made, private, draw(case, made, rng), strict=True)):
        name = unit(one) if units else str(number)
        for field in fields:
            sides[int(not own)].append(Guessed(name, field.attack, field.public, True))
            tried[int(not own)].append(Attacked(name, field.truth, field.tried))
    budget = Budget.shared(FINDINGS)
    found = put_back(*sides, 64, rng, resamples=resamples, permutations=resamples)
    return [found.level(budget), *_memory(tried, budget, rng, resamples)]


def _memory(
    sides: tuple[Sequence[Attacked], Sequence[Attacked]], budget: Budget, rng: np.random.Generator, resamples: int
) -> list[Level]:
    here, there = (evaluate(side, 0.01, rng, resamples=resamples, metrics=RANKING) for side in sides)
    names = [one.unit for one in sides[0]], [one.unit for one in sides[1]]
    test = permute_units(here, there, names, "target perplexity", rng, permutations=resamples)
    fewest = min(here.units, there.units)
    gains = [one.multi_shot["target perplexity"].scores["AccAUC"].difference for one in (here, there)]
    return [
        memory_level(here.one_shot.tokens, there.one_shot.tokens, test.tokens, fewest, budget),
        memory_level(gains[0], gains[1], test.gain, fewest, budget),
    ]


def _guess(right: bool, rng: np.random.Generator) -> Guess:
    tokens = TRUTH if right else tuple(int(token) if rng.random() < 0.3 else 9 for token in TRUTH)
    sure = -0.2 if right else -1.0
    return Guess(tokens, tuple(rng.normal(sure, 0.3, 4)), tuple(rng.normal(-2, 0.5, 4)))
