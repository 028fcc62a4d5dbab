"""Pieces in their order, by a search whose certificate is the span of the first feed-forward layer's inputs.

The form's words, the prompt around the question and the end are known; every private box holds one word, and the
prompt's box a question, of an unknown number of pieces. A wrong piece is outside the span whatever the
others are, and changes the other inputs a little. So each piece in turn is set to the one nearest to the span, the
lengths of words are varied, and where the whole sequence is in the span, and no other piece is near it in any place,
the sequence is the page's. What the search ends with otherwise proves nothing and is not returned.

Search: iterated conditional modes (Besag, On the statistical analysis of dirty pictures, 1986), over lengths as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from pfl_audit.attacks.inversion.input_span.sequence import Distances

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_STARTS: Final = (1.0, 0.75, 0.5)
"""Lengths of words over what their boxes' widths suggest, of the starts."""
_TRIED: Final = 60
"""Times that all places of a word are filled, for each word that is sought, at most, of a start."""
_FILLS: Final = 3
"""Times that the pieces of a word are chosen in turn."""
_LONGER: Final = (-4, -2, -1, 1, 2, 4)
"""Changes of a word's length that are tried."""
_CERTAIN: Final = 0.01
"""Squared distance of every position over that of the nearest other piece anywhere, up to which a text is certain."""
_WEIGHT: Final = 4.0
"""Pieces that a word counts for, whatever its length."""


@dataclass(frozen=True)
class Word:
    """A box whose pieces are sought.

    Attributes:
        first: Inputs that its first piece can be.
        others: Inputs that the others can be.
        length: Approximate number of its pieces.
    """

    first: tuple[int, ...]
    others: tuple[int, ...]
    length: int


def search(
    distances: Distances, line: Sequence[int | Word], page: Sequence[int], rng: np.random.Generator
) -> list[list[int]] | None:
    """Find the pieces of all words.

    Args:
        distances: From the span, of sequences of inputs.
        line: Inputs in their order: known ones, and words that are sought.
        page: Inputs behind them, of the page's patches.
        rng: Generator of the starts.

    Returns:
        Inputs of each word, in order; None where no sequence is certain, or a word can begin with no piece.
    """
    if not all(part.first for part in line if isinstance(part, Word)):
        return None
    found = _Search(distances, line, page, rng)
    for scale in _STARTS:
        if (words := found.from_start(scale)) is not None:
            return words
    return None


Words = list[list[int]]


class _Search:
    def __init__(
        self, distances: Distances, line: Sequence[int | Word], page: Sequence[int], rng: np.random.Generator
    ) -> None:
        self._distances, self._line, self._page, self._rng = distances, line, list(page), rng
        self._sought = [part for part in line if isinstance(part, Word)]
        self._left = 0

    def from_start(self, scale: float) -> Words | None:
        words = [self._drawn([], at, max(1, round(scale * word.length))) for at, word in enumerate(self._sought)]
        for _ in range(_FILLS):
            for at in range(len(words)):
                words = self._filled(words, at)
        self._left = _TRIED * len(words)
        while self._left > 0:
            before = words
            for at in self._rng.permutation(len(words)).tolist():
                words = min([words, *self._others(words, at)], key=lambda each, at=at: self._cost(each, at))  # type: ignore[misc]
            if self._certain(words):
                return words
            if words == before:
                return None
        return None

    def _others(self, words: Words, at: int) -> list[Words]:
        """The same with another word in one place, of this length and of others."""
        own = words[at]
        tried = [own, *(self._drawn(own, at, len(own) + change) for change in _LONGER if len(own) + change > 0)]
        for place in range(1, len(own)):
            tried.append([*own[:place], *self._drawn([], at, 2)[1:], *own[place:]])
            tried.append([*own[:place], *own[place + 1 :]])
        return [self._filled([*words[:at], each, *words[at + 1 :]], at) for each in tried]

    def _drawn(self, begun: list[int], at: int, length: int) -> list[int]:
        """A word of this length that begins like another, and random pieces behind."""
        word, made = self._sought[at], begun[:length]
        while len(made) < length:
            made.append(int(self._rng.choice(word.others if made and word.others else word.first)))
        return made

    def _filled(self, words: Words, at: int) -> Words:
        """The same with the nearest piece in each place of a word in turn."""
        word = self._sought[at]
        self._left -= 1
        for _ in range(_FILLS):
            before = words[at]
            for place in range(len(before)):
                sequence, places = self._laid(words)
                among = word.others if place and word.others else word.first
                nearest = int(self._distances.at(sequence, places[at][place], np.array(among)).argmin())
                own = [*words[at][:place], among[nearest], *words[at][place + 1 :]]
                words = [*words[:at], own, *words[at + 1 :]]
            if words[at] == before:
                break
        return words

    def _cost(self, words: Words, at: int) -> float:
        """Distance of everything, in which a word of any length counts the same."""
        sequence, places = self._laid(words)
        found = self._distances.of(sequence[None])[0]
        own = found[places[at]]
        return float(found.sum() - own.sum() + _WEIGHT * own.mean())

    def _certain(self, words: Words) -> bool:
        """Whether every known position and every piece is in the span, and no other piece is near it."""
        sequence, places = self._laid(words)
        most = float(self._distances.of(sequence[None])[0, : len(sequence) - len(self._page)].max())
        for word, own, at in zip(self._sought, words, places, strict=True):
            for place, held in zip(at, own, strict=True):
                others = np.setdiff1d(np.union1d(word.first, word.others), [held]).astype(np.int64)
                if len(others) and most > _CERTAIN * float(self._distances.at(sequence, place, others).min()):
                    return False
        return True

    def _laid(self, words: Words) -> tuple[Ints, list[list[int]]]:
        """The whole sequence, and the places of each word's pieces."""
        sequence: list[int] = []
        places = []
        rest = iter(words)
        for part in self._line:
            own = next(rest) if isinstance(part, Word) else [part]
            if isinstance(part, Word):
                places.append(list(range(len(sequence), len(sequence) + len(own))))
            sequence += own
        return np.array([*sequence, *self._page]), places
