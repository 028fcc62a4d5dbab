"""How many audits of pure noise end in a leak: python -m tests.attacks.noise_audits FIRST LAST SEEDS."""

from __future__ import annotations

import sys

import numpy as np
from pfl_audit.attacks.membership import present
from pfl_audit.attacks.membership.evaluation import Outcome, evaluate
from pfl_audit.attacks.membership.rows import ROWS

from pfl_audit.audit.verdict import ALPHA

from .simulated import table


def leaks(audit: int, seeds: int) -> bool:
    """Whether any attack of an audit calls the noise of this number a leak."""
    rng = np.random.default_rng([7, audit])
    frame, labels = table(80, 80, rng)
    outcomes: dict[str, Outcome] = {}
    for row in ROWS:
        base = outcomes.get(row.base or "")
        outcomes[row.id] = evaluate(row, frame, labels, 5, seeds=range(seeds), share=0.15, rng=rng, base=base)
    return any(present.finding([outcome], ALPHA / len(ROWS)).level == "leak" for outcome in outcomes.values())


if __name__ == "__main__":
    first, last, seeds = map(int, sys.argv[1:])
    print(sum(leaks(audit, seeds) for audit in range(first, last)))
