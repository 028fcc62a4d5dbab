"""Validation of numbers in settings from outside."""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import Any

LARGEST_SIZE = 1 << 20
"""Largest size of a layer, a vocabulary or a table."""


def whole(name: str, value: Any, least: int = 1, most: int = LARGEST_SIZE) -> int:
    """Check an integer from outside against bounds.

    Raises:
        ValueError: It is outside the bounds; the message names the setting.
    """
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise ValueError(f"{name} is not a whole number of {least} to {most}")
    return value


def number(name: str, value: Any, least: float = 0, most: float = 1) -> float:
    """Check a number from outside against bounds; NaN and infinity are refused.

    Raises:
        ValueError: It is outside the bounds; the message names the setting.
    """
    if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most:
        raise ValueError(f"{name} is not a number of {least:g} to {most:g}")
    return float(value)


def require_numbers(values: Mapping[str, Any], names: Container[str], where: str = "") -> None:
    """Check that the named values, where present, are numbers from 0 to 1000.

    Raises:
        ValueError: It is outside the bounds; the message names the setting.
    """
    for name, value in values.items():
        if name in names and value is not None:
            number(where + name, value, most=1000)
