"""How often verdicts on memorization are wrong, and how often they find what is there.

python -m tests.bench.memorization_verdicts nulls [AUDITS]    audits of answers that remember nothing, a line a case
python -m tests.bench.memorization_verdicts power [AUDITS]    share of audits that find a gap, by companies a class
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial

import numpy as np

from pfl_audit.attacks.memorization.decoys import disclosed
from pfl_audit.attacks.memorization.generalisation import reading
from pfl_audit.attacks.memorization.measures import memory
from pfl_audit.core.power import BASE, FINDINGS, GAPS
from pfl_audit.core.results import Level
from pfl_audit.core.verdict import Budget

from ..attacks.simulated_answers import numbers, pages, questions
from .verdicts import COMPANIES, HEAD, rate_line

WHOLE = Budget.shared(1)
"""The largest share of the budget that a finding may have."""


def remembers(audit: int, members: int, others: int) -> Level:
    """Noise of all measures of one key, with a control; providers of heavy-tailed sizes, ties."""
    rng = np.random.default_rng([37, audit])
    return memory(pages(rng, members, others), WHOLE, rng, powered=False).level


def reads(audit: int, members: int, others: int) -> Level:
    """New pages of both classes that are read alike; providers of heavy-tailed sizes."""
    rng = np.random.default_rng([41, audit])
    return reading(questions(rng, members, others, heavy=True), None, WHOLE, rng).level


def discloses(audit: int, digits: int) -> Level:
    """Random answers, held against random ids."""
    rng = np.random.default_rng([43, audit])
    secrets, answers = (numbers(rng, min(most, 10**digits // part), digits) for most, part in ((1000, 2), (400, 4)))
    return disclosed(answers, secrets, (), len(answers), WHOLE, rng).level


NULLS: dict[str, Callable[[int], Level]] = {
    "memory, 20 and 20 companies": partial(remembers, members=20, others=20),
    "memory, 10 and 90": partial(remembers, members=10, others=90),
    "memory, 90 and 10": partial(remembers, members=90, others=10),
    "reading, 20 and 20 companies": partial(reads, members=20, others=20),
    "reading, 10 and 90": partial(reads, members=10, others=90),
    "unprompted, ids of five digits": partial(discloses, digits=5),
    "unprompted, ids of three digits": partial(discloses, digits=3),
}


def found(audit: int, gap: float, companies: int) -> bool:
    """Whether an audit with a control finds members' values given back more often by ``gap``.

    Two pages a provider, whose answers are right together; the control gives none back. The answers alone count.
    """
    rng = np.random.default_rng([47, audit])
    frame = pages(rng, companies, companies, known=BASE / 0.9, more=gap / 0.9, heavy=False)
    asked = frame[["page", "unit", "member", "acc", "acc_control"]]
    return memory(asked, Budget.shared(FINDINGS), rng, powered=False).level == "leak"


def main() -> None:
    """Print a table."""
    what, audits = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 1000
    with ProcessPoolExecutor() as pool:
        if what == "nulls":
            print(HEAD, flush=True)
            for case, null in NULLS.items():
                print(rate_line(case, list(pool.map(null, range(audits), chunksize=10))), flush=True)
        else:
            print("| companies a class |", " | ".join(f"{gap:.0%}" for gap in GAPS), "|", flush=True)
            for companies in COMPANIES:
                shares = [
                    np.mean(list(pool.map(partial(found, gap=gap, companies=companies), range(audits), chunksize=10)))
                    for gap in GAPS
                ]
                print("|", companies, "|", " | ".join(f"{share:.0%}" for share in shares), "|", flush=True)


if __name__ == "__main__":
    main()
