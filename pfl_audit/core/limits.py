"""Limits of the parts of results.json, which may come from an untrusted source."""

from __future__ import annotations

from typing import Final

FILE: Final = 64 << 20
"""Bytes."""
VALUES: Final = 6_000_000
"""Values in the whole file, lists and objects among them."""
DEPTH: Final = 20
"""Lists and objects within each other."""
NAME: Final = 300
"""Letters of a name: of a check, a metric, a column, a fact."""
TEXT: Final = 4_096
"""Letters of a sentence, a path, a cell."""
WHOLE: Final = 2**63 - 1
"""Largest whole number; the smallest is its negative."""

CHECKS: Final = 10_000
SUBJECTS: Final = 20
MODELS: Final = 100
"""Beside the one under audit."""
METRICS: Final = 1_000
TABLES: Final = 20
ROWS: Final = 5_000
COLUMNS: Final = 50
CURVES: Final = 10
SERIES: Final = 4
POINTS: Final = 10_000
DRAWN: Final = 250
"""Points of a line that a drawing shows, and of our own that are kept."""
SCATTERED: Final = 800
"""The same of a scatter."""
DRAWN_NUMBERS: Final = 1_500_000
"""Coordinates of all curves of our own; beyond, each keeps fewer points."""
EVIDENCE: Final = 100
ENTRIES: Final = 200
"""Of an object that maps names to values: facts, settings, a slice, packages."""
NOTES: Final = 100
"""Of a list of texts: problems of the corpus, what a model was opened with."""
PUBLISHED: Final = 1_000
GATES: Final = 100
"""Gates by number that a user sets, and likewise waivers."""
GATE_ROWS: Final = GATES * CHECKS
"""A gate and a check that it holds for."""
RECORD: Final = 100_000
"""Values in what has a form of its own: settings, the training record of a checkpoint."""
