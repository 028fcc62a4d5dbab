"""Validation of settings from outside."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pfl_audit.errors import AuditError

Check = tuple[int, int] | Callable[[str, Any], Any]
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


def positive(name: str, value: Any, *, most: int) -> float:
    """Check a number above 0 from outside; NaN and infinity are refused.

    Raises:
        ValueError: It is outside the bounds; the message names the setting.
    """
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= most:
        raise ValueError(f"{name} is not a number above 0 and up to {most}")
    return float(value)


def switch(name: str, value: Any) -> bool:
    """Check a switch from outside.

    Raises:
        ValueError: It is no bool; the message names the setting.
    """
    if not isinstance(value, bool):
        raise ValueError(f"{name} is neither true nor false")
    return value


def text(name: str, value: Any) -> str:
    """Any value as a text."""
    return str(value)


def read(said: Mapping[str, Any], checks: Mapping[str, Check]) -> dict[str, Any]:
    """The settings that are checked, where they are said and not null.

    Args:
        checks: Name to the bounds of an integer, or to a function of name and value.

    Raises:
        ValueError: One of them fails its check; the message names it.
    """
    return {
        name: check(name, said[name]) if callable(check) else whole(name, said[name], *check)
        for name, check in checks.items()
        if said.get(name) is not None
    }


def require_numbers(values: Mapping[str, Any], names: Container[str], where: str = "") -> None:
    """Check that the named values, where present, are numbers from 0 to 1000.

    Raises:
        ValueError: It is outside the bounds; the message names the setting.
    """
    for name, value in values.items():
        if name in names and value is not None:
            number(where + name, value, most=1000)


def nested(settings: Any, keep: str = "\0") -> Iterator[tuple[str, str, Any]]:
    """All settings inside of dicts and lists, to any depth.

    Args:
        keep: Part of a name; what is inside of a setting of such a name is yielded under that name.

    Yields:
        Dotted path to the dict around it, at most 80 characters; its name; its value.
    """
    left = [("", "", settings)]
    while left:
        where, name, value = left.pop()
        yield where, name, value
        if isinstance(value, dict):
            inside = f"{where}.{name}"[:80] if name else where
            left += [(inside, name if keep in name else key, part) for key, part in value.items()]
        elif isinstance(value, list):
            left += [(where, name, part) for part in value]


@contextmanager
def reading_config(folder: Path, kind: str, remedy: str = "Compare it with the checkpoint's source") -> Iterator[None]:
    """A context in which settings are read or a network is built; whatever is raised in it is their error.

    Args:
        kind: What config.json should describe, such as ``a VT5``.

    Raises:
        AuditError: An exception was raised.
    """
    try:
        yield
    except Exception as error:  # torch and transformers raise many kinds
        text = " ".join(str(error).split())[:200] or type(error).__name__
        raise AuditError(f"{folder}: config.json does not describe {kind}: {text}", remedy) from error
