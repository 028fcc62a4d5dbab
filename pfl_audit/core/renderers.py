"""Registry of reports, found by entry point: each is a pure function of results.json and the run's folder."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path

from pfl_audit.core.comparison import Comparison
from pfl_audit.core.results import Results
from pfl_audit.errors import AuditError, is_interrupt
from pfl_audit.registry import ExtensionWarning, Registry

Renderer = Callable[[Results, Path], Path]
"""Writes one kind of report into the run's folder and returns its path."""
ComparisonRenderer = Callable[[Comparison, Path], Path]
"""Writes one kind of comparison beside the path and returns its path."""

REPORTS: Registry[Renderer] = Registry("pfl_audit.reports", "report", ("__call__",))
COMPARISONS: Registry[ComparisonRenderer] = Registry("pfl_audit.comparisons", "comparison", ("__call__",))


def render_all(results: Results, folder: Path) -> list[Path]:
    """Write every installed kind of report, sorted by name; one that fails is left out with a warning."""
    return _rendered({name: partial(one, results, folder) for name, one in REPORTS.installed().items()})


def render_comparison(comparison: Comparison, path: Path) -> list[Path]:
    """Write every installed kind of comparison beside ``path``, sorted by name."""
    return _rendered({name: partial(one, comparison, path) for name, one in COMPARISONS.installed().items()})


def _rendered(renderers: dict[str, Callable[[], Path]]) -> list[Path]:
    written = []
    for name, render in renderers.items():
        try:
            written.append(render())
        except AuditError:
            raise
        except Exception as error:  # whatever a stranger's report raises; its text may hold a value
            if is_interrupt(error) or isinstance(error, OSError):
                raise
            warnings.warn(f"the report '{name}' ended with {type(error).__name__}", ExtensionWarning, stacklevel=3)
    return written
