"""Budgets of the house, in one table. They go down with each larger change; what exceeds one fails a test."""

from __future__ import annotations

from typing import Final

ROOMS: Final = {
    # room: (lines of code, files)
    "attacks": (1, 1),
    "attacks/canaries": (103, 3),
    "attacks/docmia": (292, 6),
    "attacks/guesses": (284, 5),
    "attacks/inversion": (8503, 123),
    "attacks/membership": (1398, 17),
    "attacks/memorization": (1726, 20),
    "attacks/questions": (939, 12),
    "attacks/reconstruction": (2062, 27),
    "fixtures": (454, 6),
    "pfl_audit": (1001, 18),
    "pfl_audit/cli": (3240, 34),
    "pfl_audit/core": (3587, 51),
    "pfl_audit/documents": (4767, 70),
    "pfl_audit/fitness": (884, 12),
    "pfl_audit/importing": (898, 11),
    "pfl_audit/metrics": (560, 14),
    "pfl_audit/models": (7992, 149),
    "pfl_audit/privacy": (1718, 25),
    "pfl_audit/training": (5122, 80),
    "reports": (1346, 21),
}
"""Room to the most lines of code and files that it may have, as ``tests/house/source.py`` counts them."""

WHOLE: Final = 46_875
"""Most lines of code of the product. A room may take over what another one has left."""
STATEMENTS: Final = 36_365
"""Most statements: the same proportion as the lines."""

TYPE_CIRCLES: Final[frozenset[frozenset[str]]] = frozenset()
"""Circles of imports for type checkers alone that are accepted, at most 3; others, late imports included, are none."""

CPU_SECONDS: Final = {"first": 560, "second": 1300}
"""Most CPU seconds that durations.json may state for the tests of a tier."""
