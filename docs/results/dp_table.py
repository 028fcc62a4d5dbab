"""The tables of dp.md from the audits that dp.sh made: python docs/results/dp_table.py build/dp/audits.

A cell is the mean over the seeds, ± their standard deviation, and from the lowest to the highest end of
the 95 % intervals of all seeds' audits.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from pfl_audit.core.results import Metric, Results, read_results

Cell = Callable[[Results], Metric | None]


def metric(check: str, name: str, **slice_: str | int) -> Cell:
    """How to find a number in an audit."""

    def find(results: Results) -> Metric | None:
        wanted = {**slice_, "model": "target"}
        checks = [one for one in results.checks if one.id == check]
        return next((m for one in checks for m in one.metrics if m.name == name and m.slice == wanted), None)

    return find


def reading(name: str) -> Cell:
    """A score on new pages."""
    return metric("memorization.generalisation", name, pages="all pages")


TABLES: dict[str, dict[str, Cell]] = {
    "Utility and gap on RED (Tables 6 and 9)": {
        "ANLS": reading("ANLS"),
        "ACC": reading("ACC"),
        "ACC members": reading("ACC members"),
        "ACC non-members": reading("ACC non-members"),
        "Δ ACC": reading("ACC gap"),
        "Δ ANLS": reading("ANLS gap"),
    },
    "Memorization of the provider's name (Table 7)": {
        "ACC members": metric("memorization.provider_name", "ACC members", pages="all pages"),
        "ACC non-members": metric("memorization.provider_name", "ACC non-members", pages="all pages"),
        "Δ ACC": metric("memorization.provider_name", "ACC gap", pages="all pages"),
    },
    "Accuracy of the attacks (Table 10)": {
        f"{title}, s = {s}": metric(f"membership.{name}", "accuracy", s=s)
        for title, name in (("AZK", "azk"), ("APK", "apk"))
        for s in (0, 5, 10)
    },
}


def cell(found: Sequence[Metric | None]) -> str:
    """Mean ± spread over the seeds, and the span of their intervals, in per cent."""
    known = [one for one in found if one is not None and one.value is not None and one.ci is not None]
    if not known:
        return "–"
    values = [100 * (one.value or 0.0) for one in known]
    spread = f" ± {statistics.stdev(values):.1f}" if len(values) > 1 else ""
    low, high = min(100 * one.ci[0] for one in known if one.ci), max(100 * one.ci[1] for one in known if one.ci)
    return f"{statistics.mean(values):.1f}{spread} [{low:.1f}, {high:.1f}]"


def main(folder: Path) -> None:
    """Print every table as Markdown."""
    runs: dict[str, list[Results]] = {}
    for path in sorted(folder.glob("*/results.json")):
        runs.setdefault(path.parent.name.rsplit("-", 1)[0], []).append(read_results(path.parent))
    order = [f"{mode}-eps{epsilon}" for mode in ("central", "fl") for epsilon in ("none", "8", "4", "1")]
    for title, columns in TABLES.items():
        print(f"### {title}\n\n| model | ε | seeds | {' | '.join(columns)} |\n|{' --- |' * (len(columns) + 3)}")
        for name in [name for name in order if name in runs]:
            mode, epsilon = name.split("-eps")
            cells = " | ".join(cell([find(results) for results in runs[name]]) for find in columns.values())
            print(f"| {mode} | {'∞' if epsilon == 'none' else epsilon} | {len(runs[name])} | {cells} |")
        print()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
