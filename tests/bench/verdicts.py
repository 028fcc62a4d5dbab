"""How often verdicts on provider membership are wrong, and how often they find what is there.

python -m tests.bench.verdicts nulls [AUDITS [CASE ...]]    whole verdicts on noise, a line a case (1,000 by default)
python -m tests.bench.verdicts power [AUDITS]    share of audits that find an attack of a strength, by companies a class
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial

import numpy as np
from scipy.stats import binomtest, norm

from pfl_audit.attacks.membership.rows import ROWS
from pfl_audit.core.power import FINDINGS
from pfl_audit.core.results import Level
from pfl_audit.core.verdict import Budget

from ..attacks.noise_audits import CASES, decide
from ..attacks.simulated import table

QUICK = tuple(row for row in ROWS if row.id in ("azk", "likelihood-ratio", "loss-residual"))
"""Attacks that take no forest; the permutation does not know what made a call."""
SEEDS = 5
"""Draws of the known providers, as many as an audit makes."""
RATIO = tuple(row for row in ROWS if row.id == "likelihood-ratio")
STRENGTHS = (0.55, 0.60, 0.70, 0.80)
COMPANIES = (10, 20, 50, 100, 200)
HEAD = "| case | leak | leak or weak sign |\n| --- | --- | --- |"


def null(case: str, audit: int) -> Level:
    """What one audit of noise says, as the only finding."""
    frame, control, labels = CASES[case](np.random.default_rng([23, audit]))
    return decide(frame, control, labels, audit, rows=QUICK, seeds=SEEDS, s=(0,)).level


def found(strength: float, companies: int, audit: int) -> bool:
    """Whether an audit with a control and the blind baseline finds a score whose AUC is ``strength``."""
    rng = np.random.default_rng([29, audit])
    leak = float(np.sqrt(2) * norm.ppf(strength))
    frame, labels = table(companies, companies, rng, leak=leak)
    control, _ = table(companies, companies, rng)
    control = control.set_axis(frame.index).assign(queries=frame["queries"].to_numpy())
    blind = rng.normal(size=len(labels))
    budget = Budget.shared(FINDINGS)
    decision = decide(frame, control, labels, audit, rows=RATIO, budget=budget, seeds=1, s=(0,), blind=blind)
    return decision.level == "leak"


def main() -> None:
    """Print a table."""
    what, audits = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 1000
    with ProcessPoolExecutor() as pool:
        if what == "nulls":
            print(HEAD, flush=True)
            for case in sys.argv[3:] or CASES:
                print(rate_line(case, list(pool.map(partial(null, case), range(audits), chunksize=10))), flush=True)
        else:
            print("| companies a class |", " | ".join(f"{strength:.0%}" for strength in STRENGTHS), "|", flush=True)
            for companies in COMPANIES:
                shares = [np.mean(list(pool.map(partial(found, strength, companies), range(audits), chunksize=10)))
                          for strength in STRENGTHS]  # fmt: skip
                print("|", companies, "|", " | ".join(f"{share:.0%}" for share in shares), "|", flush=True)


def rate_line(case: str, said: Sequence[Level]) -> str:
    """How often audits of noise were called a leak, and at least a weak sign, with exact bounds."""
    leaks, signs = said.count("leak"), said.count("leak") + said.count("weak")
    return f"| {case} | {_rate(leaks, len(said))} | {_rate(signs, len(said))} |"


def _rate(count: int, of: int) -> str:
    low, high = binomtest(count, of).proportion_ci(0.95, "exact")
    return f"{count / of:.1%} [{low:.1%}, {high:.1%}]"


if __name__ == "__main__":
    main()
