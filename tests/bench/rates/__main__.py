"""Count false alarms and power: python -m tests.bench.rates [--estimate] [--runs N] [--list] [DESIGN ...].

Prints how long it will take, then runs every design, or those whose name contains one of the words. What has ended is
kept in build/rates, and the same command goes on there. The table says where a rate misses its limit, and the
command then ends with 1.
"""

from __future__ import annotations

import argparse
import os
from collections import Counter
from pathlib import Path

from pfl_audit.cli.console import make_progress
from tests.bench.rates import engine
from tests.bench.rates.designs import DESIGNS


def main() -> int:
    """Print estimate and table."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.rates", description=__doc__)
    parser.add_argument("words", nargs="*", help="parts of the names of designs")
    parser.add_argument("--runs", type=int, help="audits of each design, instead of those of a full table")
    parser.add_argument("--estimate", action="store_true", help="print the estimate, and end")
    parser.add_argument("--list", action="store_true", help="print the designs and their audits, and end")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    given = parser.parse_args()
    chosen = [one for name, one in DESIGNS.items() if not given.words or any(word in name for word in given.words)]
    if given.list:
        print("\n".join(f"{one.runs:6d} {one.name}" for one in chosen))
        return 0
    kept = engine.Kept(Path("build/rates"))
    seconds = engine.estimate(chosen, kept, given.runs) / given.processes
    print(f"about {seconds / 60:.0f} minutes on {given.processes} processes; kept in {kept.folder}", flush=True)
    if given.estimate:
        return 0
    engine.run(chosen, kept, given.runs, given.processes, make_progress(quiet=False))
    print(engine.table(chosen, kept))
    return int(any(one.missed(Counter(kept.read(one.name).values())) for one in chosen))


if __name__ == "__main__":
    raise SystemExit(main())
