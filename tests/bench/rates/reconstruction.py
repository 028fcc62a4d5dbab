"""Verdicts on forms that no model was trained on: values put back, and forms remembered."""

from __future__ import annotations

from functools import cache, partial
from typing import Final

import numpy as np

from tests.attacks.reconstruction.null_audits import CASES, Draw, easy_companies, levels
from tests.attacks.reconstruction.test_unit_permutation import fields, p_values
from tests.bench.rates.engine import LEVELS, Design, design
from tests.bench.rates.unseen_forms import Unseen

ALPHA: Final = 0.05


def worst(case: str, audit: int, *, units: bool = True, draw: Draw = easy_companies) -> str:
    """Worst level of the three findings on forms: of guesses, of one attempt, and of several."""
    found = levels(case, audit, units=units, draw=draw)
    return next(level for level in ("leak", "weak", "none", "unresolved") if level in found)


@cache
def _unseen() -> Unseen:
    return Unseen()


def unseen(case: str, audit: int) -> str:
    """The same with scores of the embedded models on forms that they have never seen."""
    return worst(case, audit, draw=_unseen().draw)


def alike(audit: int) -> str:
    """Whether private forms stand out from new ones where perfect reconstructions are as rare on both sides."""
    rng = np.random.default_rng([100, audit])
    found = p_values(fields(14, 0.04, rng), fields(10, 0.04, rng), permutations=199)
    return "apart" if min(found.tokens, found.gain) <= ALPHA / 2 else "alike"


DESIGNS: tuple[Design, ...] = (
    *(design(f"forms, null: drawn, dealt {case}", partial(worst, case)) for case in CASES),
    design("forms, null: rare reconstructions on both sides", alike, {"apart": ALPHA}),
    # A form is no unit where a company has several: these rates are above the limits, and show why.
    *(design(f"forms, each a unit: drawn, dealt {case}", partial(worst, case, units=False), {}, 100) for case in CASES),
    *(design(f"forms, null: embedded models, dealt {case}", partial(unseen, case), LEVELS, 100) for case in CASES),
)
