"""Verdicts on provider membership at the level of scores: noise, and scores of a known strength."""

from __future__ import annotations

from functools import cache, partial
from typing import Final

import numpy as np
from scipy.stats import norm

from pfl_audit.attacks.membership.decision import Decision
from pfl_audit.attacks.membership.rows import ROWS
from pfl_audit.core.power import FINDINGS
from pfl_audit.core.verdict import Budget
from tests.attacks.noise_audits import CASES, decide
from tests.attacks.simulated import table
from tests.attacks.simulated_references import REFERENCES, simulated
from tests.bench.rates.engine import Design, design

QUICK = tuple(row for row in ROWS if row.id in ("azk", "likelihood-ratio", "loss-residual"))
"""Attacks that take no forest; the permutation does not know what made a call."""
SEEDS = 5
"""Draws of the known providers, as many as an audit makes."""
RATIO = tuple(row for row in ROWS if row.id == "likelihood-ratio")
SCRUBBED = tuple(row for row in ROWS if row.id == "likelihood-ratio-g4")
STRENGTHS: Final = (0.55, 0.60, 0.70, 0.80)
"""AUC of a score."""
COMPANIES: Final = (10, 20, 50, 100, 200)
"""Number of companies of each class."""


def noise(case: str, audit: int) -> str:
    """Level of an audit of noise, as the only finding."""
    frame, control, labels = CASES[case](np.random.default_rng([23, audit]))
    return decide(frame, control, labels, audit, rows=QUICK, seeds=SEEDS, s=(0,)).level


def references(audit: int, *, control: bool) -> str:
    """Level of LiRA and RMIA where companies differ in difficulty alone."""
    target, other, labels = simulated(100 + audit)
    return decide(target, other if control else None, labels, audit, rows=REFERENCES, seeds=1, s=(0,)).level


def scrubbed(audit: int) -> str:
    """Level of the likelihood ratio on scrubbed pages where nothing was trained on."""
    rng = np.random.default_rng([31, audit])
    frame, labels = table(80, 80, rng)
    control, _ = table(80, 80, rng)
    control = control.set_axis(frame.index).assign(queries=frame["queries"].to_numpy())
    return decide(frame, control, labels, audit, rows=SCRUBBED, seeds=1, s=(0,)).level


def found(strength: float, companies: int, audit: int) -> str:
    """Level of an audit of a score whose AUC is ``strength``, with a control and the blind baseline."""
    rng = np.random.default_rng([29, audit])
    leak = float(np.sqrt(2) * norm.ppf(strength))
    frame, labels = table(companies, companies, rng, leak=leak)
    control, _ = table(companies, companies, rng)
    control = control.set_axis(frame.index).assign(queries=frame["queries"].to_numpy())
    blind = rng.normal(size=len(labels))
    budget = Budget.shared(FINDINGS)
    return decide(frame, control, labels, audit, rows=RATIO, budget=budget, seeds=1, s=(0,), blind=blind).level


def _ratio(leak: float, seed: int) -> Decision:
    rng = np.random.default_rng(seed)
    frame, labels = table(60, 60, rng, leak=leak)
    control, _ = table(60, 60, rng)
    control = control.set_axis(frame.index).assign(queries=frame["queries"].to_numpy())
    return decide(frame, control, labels, seed, rows=RATIO, budget=Budget.shared(FINDINGS), seeds=1, s=(0,))


@cache
def _smallest() -> float:
    return _ratio(0.0, 3).strongest.smallest


def at_the_smallest_effect(audit: int) -> str:
    """Level where the score is as strong as the smallest effect that an audit of noise states."""
    return _ratio(float(np.sqrt(2) * norm.ppf(_smallest())), 100 + audit).level


DESIGNS: tuple[Design, ...] = (
    *(design(f"membership, null: {case}", partial(noise, case)) for case in CASES),
    design("membership, null: references, with a control", partial(references, control=True)),
    design("membership, null: references, no control", partial(references, control=False)),
    design("membership, null: scrubbed pages", scrubbed),
    design("membership, power: at the smallest effect", at_the_smallest_effect, {}, 200, {"leak": 0.7}),
    *(
        design(f"membership, power: AUC {strength:.2f}, {size} a class", partial(found, strength, size), {}, 200)
        for size in COMPANIES
        for strength in STRENGTHS
    ),
)
