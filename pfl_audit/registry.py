"""Extensions, found by entry point: everything that an installed package may bring."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import lru_cache
from importlib.metadata import EntryPoint, entry_points
from typing import Final, Generic, TypeVar, cast

from pfl_audit.errors import UsageError

T_co = TypeVar("T_co", covariant=True)
_OURS: Final = "pfl-audit"


class ExtensionWarning(UserWarning):
    """An extension that cannot be used. It names the package, the entry point and the type of the exception."""


class Registry(Generic[T_co]):
    """Extensions of one kind, by name.

    A broken extension is left out with an `ExtensionWarning`; the others keep working. Where two packages give one
    name, the extension of pfl-audit is taken, and otherwise that of the package that comes first by name.

    Args:
        group: Entry point group.
        kind: Noun for warnings and errors, such as ``attack``.
        attributes: Names that an extension must have.
    """

    def __init__(self, group: str, kind: str, attributes: tuple[str, ...] = ()) -> None:
        self.group = group
        self.kind = kind
        self._attributes = attributes

    def installed(self) -> dict[str, T_co]:
        """Name to extension, sorted by name."""
        found: dict[str, T_co] = {}
        for point in entries(self.group):
            if point.name in found:
                self._warn(point, "another package has an entry of this name")
                continue
            try:
                extension = point.load()
            except (Exception, SystemExit) as error:  # whatever the import of a stranger's module raises
                self._warn(point, _reason(error))
                continue
            missing = [name for name in self._attributes if not hasattr(extension, name)]
            if missing:
                self._warn(point, f"it has no '{missing[0]}'")
                continue
            found[point.name] = cast("T_co", extension)
        return found

    def named(self, name: str) -> T_co:
        """The extension of a name.

        Raises:
            UsageError: There is none.
        """
        found = self.installed()
        if name not in found:
            raise UsageError(f"there is no {self.kind} '{name}'", f"Choose one of: {', '.join(found)}")
        return found[name]

    def _warn(self, point: EntryPoint, reason: str) -> None:
        message = f"the {self.kind} '{point.name}' of the package {_package(point)} is left out: {reason}"
        warnings.warn(message, ExtensionWarning, stacklevel=3)


def entries(group: str) -> tuple[EntryPoint, ...]:
    """Entry points of a group, by name and ours first; not loaded.

    They are read again once a folder on ``sys.path`` changes, as the installation of a package does it: a federation
    asks for its optimiser in every round of every client, and reading the files of all packages takes milliseconds.
    """
    return _ordered(group, tuple((folder, _changed(folder)) for folder in sys.path))


@lru_cache(maxsize=64)
def _ordered(group: str, path: tuple[tuple[str, int], ...]) -> tuple[EntryPoint, ...]:
    return tuple(sorted(_read(path)(group=group), key=_order))


@lru_cache(maxsize=1)
def _read(path: tuple[tuple[str, int], ...]) -> Callable[..., Iterable[EntryPoint]]:
    """What selects from those of all groups, read at once: one group takes as long."""
    return entry_points().select


def _changed(folder: str) -> int:
    """Time of the last change in ns; 0 where there is no such folder."""
    with suppress(OSError, ValueError):
        return os.stat(folder or os.curdir).st_mtime_ns  # noqa: PTH116
    return 0


def _order(point: EntryPoint) -> tuple[str, bool, str]:
    package = _package(point)
    return point.name, package != _OURS, package


def _package(point: EntryPoint) -> str:
    return point.dist.name if point.dist is not None else "unknown"


def _reason(error: BaseException) -> str:
    """Type and first line of an exception, short enough for a terminal."""
    first = next(iter(str(error).splitlines()), "")
    return f"{type(error).__name__}: {first:.200}" if first else type(error).__name__
