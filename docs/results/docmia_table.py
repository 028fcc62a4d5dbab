"""The table of docs/results/docmia.md: ``python docs/results/docmia_table.py AUDIT...``."""

from __future__ import annotations

import sys
from pathlib import Path

from pfl_audit.core.results import Check, Metric, read_results

COLUMNS = ("AUC", "TPR at 1 % FPR", "TPR at 3 % FPR", "TPR at 10 % FPR")
ROWS = (
    "docmia.distance",
    "docmia.steps",
    "docmia.fall",
    "docmia.loss",
    "docmia.clusters",
    "docmia.proxy",
    "membership.likelihood-ratio",
    "membership.azk",
)


def main() -> None:
    """Print the rows as Markdown."""
    audits = [read_results(Path(folder)) for folder in sys.argv[1:]]
    checks = {check.id: check for results in audits for check in results.checks}
    print("| attack | check | documents | " + " | ".join(COLUMNS) + " |")
    print("| --- | --- | --- |" + " --- |" * len(COLUMNS))
    for name in ROWS:
        if name in checks and checks[name].status == "ran":
            print(row(checks[name]))
    for check in checks.values():
        controls = [
            metric for metric in check.metrics if metric.slice.get("model") == "control" and metric.name == "AUC"
        ]
        if controls:
            print(f"\n{check.id} on the control: AUC {cell(controls[0])}")
        if check.finding is not None:
            print(f"\n{check.id}: {check.finding.level}. {check.finding.text}")


def row(check: Check) -> str:
    """One attack on the model under audit, or on its proxy."""
    found = {(metric.slice.get("model"), metric.name): metric for metric in check.metrics}
    target = "proxy" if ("proxy", "AUC") in found else "target"
    cells = [cell(found.get((target, name))) for name in COLUMNS]
    return f"| {check.title} | `{check.id}` | {found[target, 'AUC'].n} | " + " | ".join(cells) + " |"


def cell(metric: Metric | None) -> str:
    """A value with its interval."""
    if metric is None or metric.value is None:
        return "not resolvable"
    low, high = metric.ci or (float("nan"), float("nan"))
    if metric.name == "AUC":
        return f"{metric.value:.3f} [{low:.3f}, {high:.3f}]"
    return f"{100 * metric.value:.1f} [{100 * low:.1f}, {100 * high:.1f}]"


if __name__ == "__main__":
    main()
