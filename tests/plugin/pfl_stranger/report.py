"""A report format: one line a check, as plain text."""

from __future__ import annotations

from pathlib import Path

from pfl_audit.core.numbers import number
from pfl_audit.core.results import Results


def render(results: Results, folder: Path) -> Path:
    """Write ``report.txt``."""
    lines = []
    for check in results.checks:
        metrics = ", ".join(f"{metric.name} {number(metric)}" for metric in check.metrics)
        lines.append(f"{check.id} {check.status}: {metrics}")
    path = folder / "report.txt"
    path.write_text("\n".join(lines))
    return path
