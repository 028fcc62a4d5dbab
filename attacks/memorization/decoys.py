"""Decoy test for disclosed secrets: the same answers compared with random values of the same format.

A decoy has the format of a secret, digits for digits and letters for letters; each of its characters is drawn from
those that the secrets of the format have at its place, mixed with all of its kind. Drawn apart from the answers, as the
secrets are where nothing is remembered, decoys and secrets are exchangeable, and the share of decoy sets with as many
hits is a p value.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pfl_audit.metrics.arrays import Integers

Codes = NDArray[np.uint64]

SETS = 1999
"""Decoy sets; the smallest p value is one in 2,000."""
_ALIKE = 10
"""Secrets of a format from which the characters at a place count more than all of their kind."""
_REDRAWN = 50
_VALUES = 1 << 22
"""Characters that are drawn at a time."""


@dataclass(frozen=True)
class Hits:
    """Number of secrets among the answers, and of decoys.

    Attributes:
        true: Secrets among the answers.
        decoys: Number of hits of each decoy set, int (sets,).
    """

    true: int
    decoys: Integers

    @property
    def p_value(self) -> float:
        """Share of decoy sets with at least as many hits, the true one counted in."""
        return (1 + int((self.decoys >= self.true).sum())) / (1 + len(self.decoys))

    def critical(self, alpha: float) -> int | None:
        """Fewest hits that are significant at ``alpha``; None where there are too few sets to say so."""
        allowed = int(alpha * (1 + len(self.decoys)) + 1e-9) - 1
        if allowed < 0:
            return None
        ranked = np.sort(self.decoys)[::-1]
        return int(ranked[allowed]) + 1 if allowed < len(ranked) else 0


def hits(answers: Collection[str], secrets: Collection[str], rng: np.random.Generator, sets: int = SETS) -> Hits:
    """Count secrets among the answers, and decoys.

    Args:
        answers: Distinct, compact.
        secrets: Distinct, compact.
        sets: Number of decoy sets, each as large as the set of secrets.
    """
    groups: defaultdict[str, list[str]] = defaultdict(list)
    for secret in sorted(secrets):
        groups[form(secret)].append(secret)
    said: defaultdict[str, list[str]] = defaultdict(list)
    for answer in sorted(answers):
        said[form(answer)].append(answer)
    count = np.zeros(sets, dtype=np.int64)
    for kind, values in groups.items():
        if kind in said:
            count += _decoy_hits(kind, values, said[kind], rng, sets)
    return Hits(len(set(secrets) & set(answers)), count)


def form(value: str) -> str:
    """The format of a value: 0 for each digit, a for each letter."""
    return "".join("0" if letter.isdigit() else "a" if letter.isalpha() else letter for letter in value)


def _decoy_hits(kind: str, values: list[str], said: list[str], rng: np.random.Generator, sets: int) -> Integers:
    """How many of ``said`` are decoys of one format, int (sets,)."""
    letters = np.array([[ord(letter) for letter in value] for value in values], dtype=np.uint64)
    mixing = rng.integers(1, 2**63, size=len(kind), dtype=np.uint64) | np.uint64(1)
    wanted = np.array([[ord(letter) for letter in value] for value in said], dtype=np.uint64) @ mixing
    chunk = max(1, _VALUES // letters.size)
    found = [_draw(kind, letters, mixing, rng, min(chunk, sets - at)) for at in range(0, sets, chunk)]
    return np.concatenate([np.isin(codes, wanted).sum(axis=1) for codes in found])


def _draw(kind: str, letters: Codes, mixing: Codes, rng: np.random.Generator, sets: int) -> Codes:
    """Hashes of the decoys of ``sets`` sets, uint64 (sets, values), different within a set where there is room."""
    codes = _characters(kind, letters, rng, sets * len(letters)) @ mixing
    codes = codes.reshape(sets, len(letters))
    for _ in range(_REDRAWN):
        codes.sort(axis=1)
        again = np.zeros(codes.shape, dtype=bool)
        again[:, 1:] = codes[:, 1:] == codes[:, :-1]
        if not again.any():
            break
        codes[again] = _characters(kind, letters, rng, int(again.sum())) @ mixing
    return codes


def _characters(kind: str, letters: Codes, rng: np.random.Generator, count: int) -> Codes:
    """Code points of decoys, uint64 (count, length)."""
    size = len(letters)
    alike = rng.random((count, len(kind))) < size / (size + _ALIKE)
    drawn = letters[rng.integers(size, size=(count, len(kind))), np.arange(len(kind))]
    for place, letter in enumerate(kind):
        if letter in "0a":
            first, of = (ord("0"), 10) if letter == "0" else (ord("a"), 26)
            fresh = rng.integers(first, first + of, size=count).astype(np.uint64)
            drawn[:, place] = np.where(alike[:, place], drawn[:, place], fresh)
    return drawn
