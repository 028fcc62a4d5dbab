"""A hostile input: what makes it, the command that meets it, and how the command must end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

MEMORY = 3 << 30
"""Bytes that a case may take beyond the interpreter with torch loaded."""
CPU_SECONDS = 30


@dataclass(frozen=True)
class Case:
    """A hostile input.

    Attributes:
        name: Of the case, unique within its door.
        door: The kind of input that is hostile, such as "imdb" or "tokenizer".
        make: Writes the files into an empty folder, which becomes the working folder, and returns the command's
            arguments (paths relative to it).
        codes: Exit codes that are right.
        says: Texts that must all stand on the line of stderr: the file's name, the remedy.
        silent: Texts that must stand nowhere in what the command prints or leaves behind.
        absent: Files, relative to the working folder, that must not be there afterwards.
    """

    name: str
    door: str
    make: Callable[[Path], list[str]]
    codes: tuple[int, ...]
    says: tuple[str, ...] = ()
    silent: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()


class Door:
    """Collects the cases of one door: ``@door.case(2, "imdb.npy")`` over the function that makes the files."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.cases: list[Case] = []

    def add(self, name: str, make: Callable[[Path], list[str]], *codes: int, says: tuple[str, ...] = ()) -> None:
        """Add a case that a function makes, for cases that differ by a value alone."""
        self.cases.append(Case(name, self.name, make, codes, says))

    def case(
        self, *codes: int, says: tuple[str, ...] = (), silent: tuple[str, ...] = (), absent: tuple[str, ...] = ()
    ) -> Callable[[Callable[[Path], list[str]]], Callable[[Path], list[str]]]:
        """Add the decorated function as a case, under its own name."""

        def register(make: Callable[[Path], list[str]]) -> Callable[[Path], list[str]]:
            name = make.__name__.strip("_").replace("_", " ")
            self.cases.append(Case(name, self.name, make, codes, says, silent, absent))
            return make

        return register
