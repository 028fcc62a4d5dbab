"""Verdicts on provider membership: models that leak nothing, and leaks of a known strength."""

from __future__ import annotations

from functools import partial
from typing import Final

import numpy as np

from pfl_audit.attacks.membership.decision import Decision
from pfl_audit.attacks.membership.rows import ROWS
from pfl_audit.core.power import FINDINGS
from pfl_audit.core.verdict import LEAK_BUDGET, Budget
from tests.attacks.noise_audits import BUDGET, decide
from tests.bench.rates.engine import Design, design
from tests.bench.rates.worlds import WORLDS, World, easier, equal, models

QUICK: Final = tuple(row for row in ROWS if row.id in ("azk", "likelihood-ratio"))
"""Attacks that take no forest, one of answers and one of likelihoods."""
RATIOS: Final = (0.1, 1 / 3, 0.5, 0.6, 0.7, 0.8, 1.0, 1.25, 1.5, 2.0)
"""Share of the keys that a control finds, over that of the model: the curve from which COMPETENT is taken."""
STRENGTHS: Final = {0.60: 0.21, 0.65: 0.32, 0.70: 0.43, 0.80: 0.69}
"""AUC of a score over alike companies, to the leak that gives it (measured over 20,000 companies)."""
COMPANIES: Final = (20, 35, 50, 80, 200)
"""Number of companies of each class."""
_ASIDE: Final = 12
"""Non-members that are set aside."""


def decided(world: World, audit: int, *, leak: float = 0.0, budget: Budget = BUDGET) -> Decision:
    """Decision of an audit whose control is measured on non-members that are set aside."""
    rng = np.random.default_rng([43, audit])
    target, control, company = models(world, rng, leak)
    aside = np.isin(company, rng.permutation(np.flatnonzero(~world.labels))[:_ASIDE])
    reads = float(control["acc"][aside].mean() / max(1e-9, float(target["acc"][aside].mean())))
    kept = np.unique(company[~aside])
    names = [f"provider {number:04d}" for number in kept]
    tables = [
        one[~aside].groupby(company[~aside]).mean().set_axis(names).assign(queries=world.questions[kept])
        for one in (target, control)
    ]
    return decide(
        *tables,
        world.labels[kept],
        audit,
        rows=QUICK,
        seeds=1,
        reads=reads,
        documents=world.documents[kept],
        groups=[world.groups[number] for number in kept],
        budget=budget,
    )


def level(decision: Decision) -> str:
    """Level of a decision, or that its control was refused."""
    return decision.level if decision.strongest.refusal is None else "refused"


def null(case: str, companies: int, audit: int) -> str:
    """Level of an audit of a model that leaks nothing, as the only finding."""
    number = 1000 * list(WORLDS).index(case) + audit  # no two designs share what they draw
    world = WORLDS[case](np.random.default_rng([41, number]), companies, companies + _ASIDE)
    return level(decided(world, number))


def competence(ratio: float, by: float, audit: int) -> str:
    """Outcome of the test at 5 % where members' pages are easier, or harder, for whoever reads them.

    Returns:
        ``rejects`` or ``keeps``, whatever the control reads, and ``(refused)`` where the control is refused.
    """
    world = easier(np.random.default_rng([47, audit]), 80, 80 + _ASIDE, by)
    world.found = ratio
    decision = decided(world, audit)
    least = min(one.p_value for judged in decision.by_access.values() for one in judged)
    return ("rejects" if least <= LEAK_BUDGET else "keeps") + (" (refused)" if decision.strongest.refusal else "")


def found(strength: float, companies: int, findings: int, audit: int) -> str:
    """Level of an audit of a leak, where an audit shares its budget among so many findings."""
    world = equal(np.random.default_rng([29, audit]), companies, companies + _ASIDE)
    return level(decided(world, audit, leak=STRENGTHS[strength], budget=Budget.shared(findings)))


DESIGNS: tuple[Design, ...] = (
    *(
        design(f"membership, null: {case}, {size} a class", partial(null, case, size))
        for case in WORLDS
        for size in (20, 50, 80, 200)
    ),
    *(
        design(
            f"membership, control of {ratio:.2f} times the keys, pages {name}", partial(competence, ratio, by), {}, 200
        )
        for ratio in RATIOS
        for name, by in (("easier", 0.5), ("harder", -0.5))
    ),
    *(
        design(
            f"membership, power: AUC {strength:.2f}, {size} a class, {said}",
            partial(found, strength, size, findings),
            {},
            200,
        )
        for said, findings in (("alone", 1), ("of a whole audit", FINDINGS))
        for size in COMPANIES
        for strength in STRENGTHS
    ),
)  # fmt: skip
