"""Budgets of the house, in one table. They go down with each larger change; what exceeds one fails a test."""

from __future__ import annotations

from typing import Final

ROOMS: Final = {
    # room: (lines of code, files)
    "attacks": (-1, 1),
}
"""Room to the most lines of code and files that it may have, as ``tests/house/source.py`` counts them."""

WHOLE: Final = 46_500
"""Most lines of code of the product. A room may take over what another one has left."""
STATEMENTS: Final = 35_996
"""Most statements: the same proportion as the lines."""

TYPE_CIRCLES: Final[frozenset[frozenset[str]]] = frozenset()
"""Circles of imports for type checkers alone that are accepted, at most 3; others, late imports included, are none."""

CPU_SECONDS: Final = {"first": 560, "second": 2400}
"""Most CPU seconds that durations.json may state for the tests of a tier."""
