"""Budgets of the house, in one table. They go down with each larger change; what exceeds one fails a test."""

from __future__ import annotations

from typing import Final

ROOMS: Final = {
    # room: (lines of code, files)
    "attacks": (1, 1),
    "attacks/canaries": (103, 3),
    "attacks/docmia": (292, 6),
    "attacks/guesses": (284, 5),
    "attacks/inversion": (7927, 118),
    "attacks/membership": (1398, 17),
    "attacks/memorization": (1730, 20),
    "attacks/questions": (939, 12),
    "attacks/reconstruction": (2062, 27),
    "fixtures": (454, 6),
    "pfl_audit": (1043, 18),
    "pfl_audit/cli": (3249, 34),
    "pfl_audit/core": (3656, 51),
    "pfl_audit/documents": (4796, 70),
    "pfl_audit/fitness": (884, 12),
    "pfl_audit/importing": (920, 11),
    "pfl_audit/metrics": (560, 14),
    "pfl_audit/models": (7978, 149),
    "pfl_audit/privacy": (1747, 25),
    "pfl_audit/training": (5126, 80),
    "reports": (1353, 21),
}
"""Room to the most lines of code and files that it may have, as ``tests/house/source.py`` counts them."""

WHOLE: Final = 46_500
"""Most lines of code of the product. A room may take over what another one has left."""
STATEMENTS: Final = 36_027
"""Most statements: the same proportion as the lines."""

TYPE_CIRCLES: Final[frozenset[frozenset[str]]] = frozenset()
"""Circles of imports for type checkers alone that are accepted, at most 3; others, late imports included, are none."""

CPU_SECONDS: Final = {"first": 560, "second": 1300}
"""Most CPU seconds that durations.json may state for the tests of a tier."""
