"""Numbers in settings that came from outside, held against bounds."""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import Any

LARGEST_SIZE = 1 << 20
"""Of a layer, a vocabulary, a table."""


def whole(name: str, value: Any, least: int = 1, most: int = LARGEST_SIZE) -> int:
    """Check a whole number that came from outside.

    Raises:
        ValueError: With the name of the setting.
    """
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise ValueError(f"{name} is not a whole number of {least} to {most}")
    return value


def number(name: str, value: Any, least: float = 0, most: float = 1) -> float:
    """Check a number that came from outside; NaN and infinity are none.

    Raises:
        ValueError: With the name of the setting.
    """
    if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most:
        raise ValueError(f"{name} is not a number of {least:g} to {most:g}")
    return float(value)


def require_numbers(values: Mapping[str, Any], names: Container[str], where: str = "") -> None:
    """Check those of the values that are named, each a number of 0 to 1000 where it is there.

    Raises:
        ValueError: With the name of the setting.
    """
    for name, value in values.items():
        if name in names and value is not None:
            number(where + name, value, most=1000)
