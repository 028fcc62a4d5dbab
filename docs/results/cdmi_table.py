"""The table of cdmi-fcc-adbuy.md from what cdmi.sh made: python docs/results/cdmi_table.py build/cdmi."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from pfl_audit.core.results import Metric, Results, read_results

GUESSES = (1, 8, 64)
NUMBERS = ("HamAAC", "AccAUC", "AccAt 1 %", "AccAt 5 %", "AccAt 100 %")
HEADS = ("Backbone", "Task", "Crit", "Modal", "Prec", "epoch", "fields", "IpF", "IpF, new forms", *NUMBERS)
HEADS += (*(f"secrets, {k}" for k in GUESSES), "finding")


def metric(results: Results, name: str, **about: str | int) -> Metric | None:
    """The target's number of that name, about those fields."""
    wanted = {"model": "target", **about}
    return next(
        (one for check in results.checks for one in check.metrics if (one.name, one.slice) == (name, wanted)), None
    )


def cell(found: Metric | None) -> str:
    """Value and interval."""
    if found is None or found.value is None or found.ci is None:
        return "–"
    return f"{found.value:.3f} [{found.ci[0]:.3f}, {found.ci[1]:.3f}]"


def main(work: Path) -> None:
    """Print a line an attack, and one for what public knowledge alone gives."""
    print(f"| {' | '.join(HEADS)} |\n|{' --- |' * len(HEADS)}")
    for folder in sorted(path.parent for path in (work / "audits").glob("*/results.json")):
        name, backbone, modality, criterion = folder.name.replace("ee-bio", "eebio").split("-")
        task = name.replace("eebio", "ee-bio")
        results = read_results(folder)
        target = work / f"{task}-{backbone}-{modality}" / f"best-{criterion}" / "training.json"
        record = json.loads(target.read_text(encoding="utf-8"))
        own, new = {"fields": "private forms", "with": "the attack"}, {"fields": "new forms", "with": "the attack"}
        tables = {table.title: table.rows for check in results.checks for table in check.tables}
        count = sum(int(row[1] or 0) for row in tables["By label, one attempt"])
        levels = "/".join(check.finding.level if check.finding else check.status for check in results.checks)
        cells = [cell(metric(results, "improvement factor", **about)) for about in (own, new)]
        cells += [cell(metric(results, number, **own)) for number in NUMBERS]
        cells += [cell(metric(results, "secrets put back", **own, guesses=k)) for k in GUESSES]
        about = [backbone, task, criterion, modality, f"{record['accuracy']:.3f}", str(record["epoch"]), str(count)]
        print(f"| {' | '.join([*about, *cells, levels])} |")
        if criterion == "precision":
            public = {**own, "with": "public knowledge alone"}
            alone = [cell(metric(results, n, **public)) for n in NUMBERS]
            alone += [cell(metric(results, "secrets put back", **public, guesses=k)) for k in GUESSES]
            print(f"| | | | | | | | public alone | | {' | '.join(alone)} | |")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
