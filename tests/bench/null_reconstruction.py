"""How often an audit says that values were put back, or forms remembered, where no form was trained on.

python -m tests.bench.null_reconstruction [AUDITS [ALONE [CASE ...]]]

Prints a line a setting, of 500 audits, and of 100 that take every form for a unit of its own.
"""

from __future__ import annotations

import sys

from ..attacks.reconstruction.null_audits import CASES, levels

HEAD = "| forms are dealt | leak | leak or weak sign | unresolved | a form a unit: leak | leak or weak sign |"


def main(audits: int = 500, alone: int = 100, *cases: str) -> None:
    """Print the table."""
    print(HEAD)
    print("| --- | --- | --- | --- | --- | --- |")
    for case in cases or CASES:
        found = [levels(case, audit) for audit in range(audits)]
        by_form = [levels(case, audit, units=False) for audit in range(alone)]
        leaks, alarms, wrong, signs = (
            sum(any(level in wanted for level in some) for some in of)
            for of in (found, by_form)
            for wanted in (("leak",), ("leak", "weak"))
        )
        undecided = sum(all(level == "unresolved" for level in some) for some in found)
        print(f"| {case} | {leaks} | {alarms} | {undecided} | {wrong} | {signs} |", flush=True)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:3]), *sys.argv[3:])
