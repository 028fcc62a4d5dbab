"""CPU seconds of a report of 1,000 checks and 100 curves, against escaping the same results as text.

Run: python -m tests.bench.report
"""

from __future__ import annotations

import time
from html import escape
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from pfl_audit.reports.html import to_html
from tests.reports.test_size import large

REPEATS = 3


def main() -> None:
    """Print the medians and their ratio."""
    found = large()
    with TemporaryDirectory() as folder:
        to_html(found, Path(folder))  # the templates are compiled once
        pages, floors, size = [], [], 0
        for _ in range(REPEATS):
            started = time.process_time()
            size = len(to_html(found, Path(folder)).encode())
            pages.append(time.process_time() - started)
            started = time.process_time()
            escape(found.model_dump_json())
            floors.append(time.process_time() - started)
    page, floor = median(pages), median(floors)
    print(f"report: {page:.2f} CPU s, {size / 1e6:.2f} MB, {page / floor:.0f} times a dump of the results")


if __name__ == "__main__":
    main()
