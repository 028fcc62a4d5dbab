"""Pieces in their order, each chosen by its own place: fast, and enough where a wrong piece moves its own place most.

Each piece in turn is set to the one nearest to the span in its place, and the lengths of words are varied. Iterated
conditional modes (Besag, On the statistical analysis of dirty pictures, 1986), over lengths as well.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from pfl_audit.attacks.inversion.input_span.texts import Texts, Words
from pfl_audit.metrics.arrays import Integers

_TRIED: Final = 60
"""Times that all places of a word are filled, for each word that is sought, at most, of a start."""
_FILLS: Final = 3
"""Times that the pieces of a word are chosen in turn."""
_LONGER: Final = (-4, -2, -1, 1, 2, 4)
"""Changes of a word's length that are tried."""
_WEIGHT: Final = 4.0
"""Pieces that a word counts for, whatever its length."""


class OwnPlaces:
    """The search.

    Args:
        texts: What is known and what is sought; every word can begin with some piece.
        rng: Generator of the starts.
    """

    def __init__(self, texts: Texts, rng: np.random.Generator) -> None:
        self._texts, self._sought, self._rng = texts, texts.sought, rng
        self._left = 0

    def from_start(self, scale: float) -> Words | None:
        """Find the pieces of all words.

        Args:
            scale: Lengths of words at the start, over what their boxes' widths suggest.

        Returns:
            Inputs of each word, in order; None where no text is certain.
        """
        words = [self._drawn([], at, max(1, round(scale * word.length))) for at, word in enumerate(self._sought)]
        for _ in range(_FILLS):
            for at in range(len(words)):
                words = self._filled(words, at)
        self._left = _TRIED * len(words)
        while self._left > 0:
            before = words
            for at in self._rng.permutation(len(words)).tolist():
                words = min([words, *self._others(words, at)], key=lambda each, at=at: self._cost(each, at))  # type: ignore[misc]
            if self._texts.certain(words):
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
                nearest = int(self._texts.distances.at(sequence, places[at][place], np.array(among)).argmin())
                own = [*words[at][:place], among[nearest], *words[at][place + 1 :]]
                words = [*words[:at], own, *words[at + 1 :]]
            if words[at] == before:
                break
        return words

    def _cost(self, words: Words, at: int) -> float:
        """Distance of everything, in which a word of any length counts the same."""
        sequence, places = self._laid(words)
        found = self._texts.distances.of(sequence[None])[0]
        own = found[places[at]]
        return float(found.sum() - own.sum() + _WEIGHT * own.mean())

    def _laid(self, words: Words) -> tuple[Integers, list[list[int]]]:
        """The whole sequence, with the page behind the text, and the places of each word's pieces."""
        text, places = self._texts.laid(words)
        return np.array([*text, *self._texts.page]), places
