"""CPU seconds and size of results.json and its report, by the number of checks.

Run: python -m tests.bench.results_file [CHECKS ...]

Every check has six numbers and a figure of three lines of 2,000 points (a scatter is one in four).
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeVar

from pfl_audit.core.results import read_results, write_results
from pfl_audit.reports.html import render, to_html
from tests.reports.test_size import large

SIZES = (100, 1000, 10_000)
POINTS = 2000
T = TypeVar("T")


def main(sizes: list[int]) -> None:
    """Print a line a size."""
    with TemporaryDirectory() as folder:
        to_html(large(1, 1), Path(folder))  # the templates are compiled once
        for size in sizes:
            found = large(size, size, POINTS)
            written, path = clocked(lambda results=found: write_results(results, Path(folder)))
            read, again = clocked(lambda: read_results(Path(folder)))
            drawn, page = clocked(lambda results=again: render(results, Path(folder)))
            print(
                f"{size} checks: written in {written:.1f} CPU s, {path.stat().st_size / 1e6:.1f} MB; read in "
                f"{read:.1f} s; report in {drawn:.1f} s, {page.stat().st_size / 1e6:.1f} MB"
            )


def clocked(what: Callable[[], T]) -> tuple[float, T]:
    """CPU seconds that it takes, and its value."""
    began = time.process_time()
    value = what()
    return time.process_time() - began, value


if __name__ == "__main__":
    main([int(size) for size in sys.argv[1:]] or list(SIZES))
