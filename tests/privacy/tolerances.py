"""Accuracy that docs/accounting.md states of the accountant."""

from typing import Final

RELATIVE_TOLERANCE: Final = 0.005
ABSOLUTE_TOLERANCE: Final = 1e-4
"""The bound exceeds the exact epsilon by at most the larger of the two tolerances, for sampling rates from 1e-3."""
