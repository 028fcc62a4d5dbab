"""How often an audit says that values were put back, or forms remembered, where no form was trained on.

python -m tests.bench.null_reconstruction [AUDITS [ALONE [MODEL]]]

Prints a line a setting: of 500 audits with drawn scores, of 100 that take every form for a unit of its own, and of 100
whose scores are those of the embedded models on forms that they have never seen.
"""

from __future__ import annotations

import sys

from ..attacks.reconstruction.null_audits import CASES, Draw, easy_companies, levels
from .unseen_forms import Unseen

HEAD = "| forms are dealt | leak | leak or weak sign | unresolved | a form a unit: leak | leak or weak sign "
HEAD += "| real model: leak | leak or weak sign |"


def main(audits: int = 500, alone: int = 100, model: int = 100) -> None:
    """Print the table."""
    unseen = Unseen() if model else None
    print(HEAD)
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for case in CASES:
        found = _levels(case, audits)
        cells = [*_alarms(found), sum(all(level == "unresolved" for level in some) for some in found)]
        cells += _alarms(_levels(case, alone, units=False))
        cells += _alarms(_levels(case, model, draw=unseen.draw)) if unseen is not None else []
        print(f"| {case} | {' | '.join(map(str, cells))} |", flush=True)


def _levels(case: str, audits: int, *, units: bool = True, draw: Draw = easy_companies) -> list[list[str]]:
    return [list(levels(case, audit, units=units, draw=draw)) for audit in range(audits)]


def _alarms(found: list[list[str]]) -> list[int]:
    """Audits with a leak, and those with a leak or a weak sign."""
    return [sum(any(level in wanted for level in some) for some in found) for wanted in (("leak",), ("leak", "weak"))]


if __name__ == "__main__":
    main(*map(int, sys.argv[1:4]))
