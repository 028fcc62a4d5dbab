"""Reports, found by entry point: each is a pure function of results.json and the run's folder."""

from __future__ import annotations

from importlib.metadata import entry_points
from pathlib import Path
from typing import Protocol

from pfl_audit.core.comparison import Comparison
from pfl_audit.core.results import Results

GROUP = "pfl_audit.reports"
COMPARISONS = "pfl_audit.comparisons"


class Renderer(Protocol):
    """Renders one kind of report."""

    def __call__(self, results: Results, folder: Path) -> Path:
        """Write the report into the run's folder and return its path."""
        ...


def render_all(results: Results, folder: Path) -> list[Path]:
    """Write every installed kind of report, sorted by name."""
    points = sorted(entry_points(group=GROUP), key=lambda point: point.name)
    return [point.load()(results, folder) for point in points]


def render_comparison(comparison: Comparison, path: Path) -> list[Path]:
    """Write every installed kind of comparison beside ``path``, sorted by name."""
    points = sorted(entry_points(group=COMPARISONS), key=lambda point: point.name)
    return [point.load()(comparison, path) for point in points]
