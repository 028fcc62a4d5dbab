"""Texts of known inputs and of words that are sought, and when such a text is certain to be the page's.

The form's words, the prompt around the question and the end are known; every private box holds one word, and the
prompt's box a question, of an unknown number of pieces. Where the whole sequence is in the span of the first
feed-forward layer's inputs, and no other piece is near it in any place, the sequence is the page's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from pfl_audit.attacks.inversion.input_span.fits import Fits
from pfl_audit.attacks.inversion.input_span.sequence import Distances

Words = list[list[int]]

_CERTAIN: Final = 0.01
"""Squared distance of every position over that of the nearest other piece anywhere, up to which a text is certain."""


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

    @property
    def rest(self) -> tuple[int, ...]:
        """Inputs that pieces behind the first can be."""
        return self.others or self.first

    def pieces(self, number: int) -> tuple[int, ...]:
        """Inputs that the piece of this number can be, from 0."""
        return self.rest if number else self.first

    def holds(self, word: Sequence[int]) -> bool:
        """Whether a word can be in the box."""
        return word[0] in self.first and set(word[1:]) <= set(self.rest)


@dataclass(frozen=True)
class Texts:
    """Texts whose words are sought, and their certificates.

    Attributes:
        distances: From the span, of sequences of inputs: the certificate of updates without errors of their own.
        fits: The certificate of others, of the same inputs.
        line: Inputs in their order: known ones, and words that are sought.
        page: Inputs behind them, of the page's patches.
    """

    distances: Distances
    fits: Fits
    line: Sequence[int | Word]
    page: Sequence[int]

    @property
    def sought(self) -> list[Word]:
        """The words that are sought, in their order."""
        return [part for part in self.line if isinstance(part, Word)]

    def laid(self, words: Words) -> tuple[list[int], list[list[int]]]:
        """The whole text, and the places of each word's pieces."""
        text: list[int] = []
        places = []
        rest = iter(words)
        for part in self.line:
            own = next(rest) if isinstance(part, Word) else [part]
            if isinstance(part, Word):
                places.append(list(range(len(text), len(text) + len(own))))
            text += own
        return text, places

    def certain(self, words: Words) -> bool:
        """Whether every known position and every piece is in the span, and no other piece is near it."""
        text, places = self.laid(words)
        sequence = np.array([*text, *self.page])
        most = float(self.distances.of(sequence[None])[0, : len(text)].max())
        others = []
        for word, own, at in zip(self.sought, words, places, strict=True):
            among = np.union1d(word.first, word.others).astype(np.int64)
            others += [(place, np.setdiff1d(among, [held])) for place, held in zip(at, own, strict=True)]
        nearest = min(
            (float(self.distances.at(sequence, place, among).min()) for place, among in others if len(among)),
            default=np.inf,
        )
        return most <= _CERTAIN * nearest or self.fits.alone(sequence, len(text), others)
