"""Losses of a report by its privacy budget: python -m tests.bench.budget_loss RUN [RUN ...].

Each RUN is the folder of a masked audit with its private folder.
"""

from __future__ import annotations

import sys
from pathlib import Path

from pfl_audit.core.results import read_results


def main() -> None:
    """Print a row a run, as Markdown."""
    print(
        "| run | numbers | rounded | bounds | not published | rows of lists | figures left out | levels that differ |"
    )
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for run in map(Path, sys.argv[1:]):
        shared, exact = read_results(run), read_results(run / "private")
        pairs = [
            (one, other)
            for check, known in zip(shared.checks, exact.checks, strict=True)
            for one, other in zip(check.metrics, known.metrics, strict=True)
            if other.value is not None
        ]
        rows, before = (
            sum(len(table.rows) for check in found.checks for table in check.tables) for found in (shared, exact)
        )
        left_out = sum(
            len(known.curves) - len(check.curves) for check, known in zip(shared.checks, exact.checks, strict=True)
        )
        levels = sum(
            check.finding.level != known.finding.level
            for check, known in zip(shared.checks, exact.checks, strict=True)
            if check.finding and known.finding
        )
        counts = [
            len(pairs),
            sum(one.value is not None for one, _ in pairs),
            sum(one.bound is not None for one, _ in pairs),
            sum(one.value is None for one, _ in pairs),
        ]
        print(f"| {run} | {' | '.join(map(str, counts))} | {rows} of {before} | {left_out} | {levels} |")


if __name__ == "__main__":
    main()
