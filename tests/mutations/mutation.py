"""One rule of the product, and the text that breaks it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Room = Literal[
    "verdicts", "statistics", "exit codes", "reports", "resume", "accounting", "clipping and noise", "training",
    "readers", "scrubbing", "masking", "hostile input", "models", "attacks",
]  # fmt: skip


@dataclass(frozen=True)
class Mutation:
    """A rule that is broken by the replacement of one text.

    Attributes:
        rule: The rule, in a sentence.
        room: Part of the product that it belongs to.
        file: Path of the source in the repository, without links.
        before: Text that occurs once in the file.
        after: Replacement.
        tests: Files of tests that may find it, the cheapest first.
    """

    rule: str
    room: Room
    file: str
    before: str
    after: str
    tests: tuple[str, ...]
