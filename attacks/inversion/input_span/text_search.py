"""Pieces in their order, by a search whose certificate is the span of the first feed-forward layer's inputs.

Each piece is first chosen by its own place (``own_places``). A wrong piece also changes what every position is given,
by its attention, and where attention is nearly uniform by more than it changes its own place. So where no text is
certain then, texts are compared by what all positions leave outside the span (``Residuals.costs``): pieces are replaced
one and two at a time, in all words, moved within a word, added and left out, and left out of one word and added to
another, which alone keeps the places of all words behind both. What the search ends with otherwise proves nothing and
is not returned.

Search: iterated conditional modes (Besag, On the statistical analysis of dirty pictures, 1986), in blocks of two, over
lengths as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, permutations
from typing import Final

import numpy as np

from pfl_audit.attacks.inversion.input_span.exchanges import exchanged
from pfl_audit.attacks.inversion.input_span.own_places import OwnPlaces
from pfl_audit.attacks.inversion.input_span.residuals import Residuals, Text
from pfl_audit.attacks.inversion.input_span.texts import Texts, Words

_STARTS: Final = (1.0, 0.75, 0.5, 1.25)
"""Lengths of words over what their boxes' widths suggest, of the starts."""
_ROUNDS: Final = 12
"""Times that all words are changed in all ways, at most, of a start."""
_MODELS: Final = 4
"""Times in a round that effects of replacements are computed again."""
_CHOICES: Final = 1200
"""Replacements that are compared in pairs, at most; of more, those that alone leave least in each place."""
_SKETCH: Final = 16
"""Directions in which pairs are compared."""


def search(texts: Texts, residuals: Residuals, rng: np.random.Generator) -> Words | None:
    """Find the pieces of all words.

    Args:
        texts: What is known, what is sought, and when it is certain.
        residuals: Outside the span, of texts of the same inputs with the page behind them.
        rng: Generator of the starts.

    Returns:
        Inputs of each word, in order; None where no text is certain, or a word can begin with no piece.
    """
    if not all(word.first for word in texts.sought):
        return None
    alone, together = OwnPlaces(texts, rng), _Search(texts, residuals, rng)
    for scale in _STARTS:
        words = alone.from_start(scale) or together.from_start(scale)
        if words is not None:
            return words
    return None


class _Search:
    def __init__(self, texts: Texts, residuals: Residuals, rng: np.random.Generator) -> None:
        self._texts, self._sought, self._residuals, self._rng = texts, texts.sought, residuals, rng

    def from_start(self, scale: float) -> Words | None:
        """Words that are certain; lengths at the start are those that the boxes' widths suggest, times ``scale``."""
        words = []
        for word in self._sought:
            rest = max(1, round(scale * word.length)) - 1
            words.append([int(each) for each in (self._rng.choice(word.first), *self._rng.choice(word.rest, rest))])
        for at in range(len(words)):
            words = self._filled(words, at, range(len(words[at])))[0]
        for _ in range(_ROUNDS):
            before = words
            words = self._exchanged(words)
            for change in (self._moved, self._of_other_length):
                for at in self._rng.permutation(len(words)).tolist():
                    words = change(words, at)
                if self._texts.certain(words):
                    return words
            if words == before:
                words = self._shifted(words)
                if words == before:
                    return None
                if self._texts.certain(words):
                    return words
        return None

    def _exchanged(self, words: Words) -> Words:
        """The same with pieces replaced, as a model of all replacements or the places themselves suggest."""
        cost = self._text(words).cost
        for _ in range(_MODELS):
            lower, other = min(
                ((self._text(each).cost, each) for each in self._suggested(words)), key=lambda each: each[0]
            )
            if lower >= cost:
                break
            words, cost = other, lower
        return words

    def _suggested(self, words: Words) -> list[Words]:
        """Words by exchanges where effects add up, and by the piece that each place has nearest to the span."""
        text, places = self._text(words), self._texts.laid(words)[1]
        left = text.residuals[:, :_SKETCH]
        most = max(2, _CHOICES // sum(map(len, words)))
        nearest: Words = []
        pieces: list[int] = []
        effects, place, chosen = [], [], []
        for at, word in enumerate(words):
            nearest.append(list(word))
            for number, (spot, held) in enumerate(zip(places[at], word, strict=True)):
                among = np.array(self._sought[at].pieces(number))
                found = self._residuals.replaced(text, spot, among)
                nearest[at][number] = int(among[np.square(found[:, spot]).sum(axis=1).argmin()])
                kept = np.argsort(self._residuals.costs(found))[:most]
                kept = kept[among[kept] != held]
                chosen.append(len(pieces))
                place += [len(chosen) - 1] * (len(kept) + 1)
                pieces += [held, *among[kept].tolist()]
                effects += [np.zeros_like(left)[None], found[kept, :, :_SKETCH] - left]
        every = np.concatenate(effects).reshape(len(pieces), -1)
        flat = iter([pieces[choice] for choice in exchanged(every, left.ravel(), np.array(place), np.array(chosen))])
        alone = [[*words[:at], own, *words[at + 1 :]] for at, own in enumerate(nearest)]
        return [[[next(flat) for _ in word] for word in words], nearest, *alone]

    def _moved(self, words: Words, at: int) -> Words:
        """The same with pieces of a word in another order."""
        cost, pending = self._text(words).cost, True
        while pending:
            pending = False
            for own in _orders(words[at]):
                if not self._sought[at].holds(own):
                    continue
                other = [*words[:at], own, *words[at + 1 :]]
                lower = self._text(other).cost
                if lower < cost:
                    words, cost, pending = other, lower, True
                    break
        return words

    def _of_other_length(self, words: Words, at: int) -> Words:
        """The same with one piece more in a word, or a run of them less, if that leaves less."""
        cost = self._text(words).cost
        runs = [run for run in combinations(range(len(words[at]) + 1), 2) if run != (0, len(words[at]))]
        lower, other = min(self._longer(words, at), self._shorter(words, at, runs), key=lambda each: each[0])
        return other if lower < cost else words

    def _longer(self, words: Words, at: int) -> tuple[float, Words]:
        """The least that is left with one piece more in a word, and the words."""
        own = words[at]
        tried = [([*own[:place], own[place - 1], *own[place:]], [place]) for place in range(1, len(own) + 1)]
        return self._least(words, at, tried)

    def _shorter(self, words: Words, at: int, runs: Sequence[tuple[int, int]]) -> tuple[float, Words]:
        """The least that is left without one of these runs of pieces of a word, and the words."""
        own = words[at]
        return self._least(words, at, [([*own[:begin], *own[end:]], [0] * (not begin)) for begin, end in runs])

    def _least(self, words: Words, at: int, tried: Sequence[tuple[list[int], list[int]]]) -> tuple[float, Words]:
        """The least that is left with one of these words, each with the numbers of places to fill, and the words."""
        best, cost = words, np.inf
        for each, filled in tried:
            other, lower = self._filled([*words[:at], each, *words[at + 1 :]], at, filled)
            if lower < cost:
                best, cost = other, lower
        return cost, best

    def _shifted(self, words: Words) -> Words:
        """The same with one piece less in a word and one more in another, if that leaves less.

        Positions between and behind them are moved by neither alone.
        """
        cost = self._text(words).cost
        shorter = [
            self._shorter(words, at, [(begin, begin + 1) for begin in range(len(own)) if len(own) > 1])
            for at, own in enumerate(words)
        ]
        longer = [self._longer(words, at) for at in range(len(words))]
        pairs = [(shorter[one][0] + longer[other][0], one, other) for one, other in permutations(range(len(words)), 2)]
        for _, one, other in sorted(pair for pair in pairs if np.isfinite(pair[0])):
            changed = [*words]
            changed[one], changed[other] = shorter[one][1][one], longer[other][1][other]
            for at in (one, other):
                changed, lower = self._filled(changed, at, range(len(changed[at])))
            if lower < cost:
                return changed
        return words

    def _filled(self, words: Words, at: int, numbers: Sequence[int]) -> tuple[Words, float]:
        """The same with the piece that leaves least in places of a word in turn, and what it leaves."""
        cost = np.inf
        for number in numbers:
            among = self._sought[at].pieces(number)
            found = self._residuals.replaced(self._text(words), self._texts.laid(words)[1][at][number], among)
            left = self._residuals.costs(found)
            cost, own = float(left.min()), [*words[at]]
            own[number] = among[int(left.argmin())]
            words = [*words[:at], own, *words[at + 1 :]]
        return words, cost if numbers else self._text(words).cost

    def _text(self, words: Words) -> Text:
        return self._residuals.of(self._texts.laid(words)[0])


def _orders(word: list[int]) -> list[list[int]]:
    """A word with two pieces exchanged, or two runs of pieces side by side."""
    found = []
    for begin, middle, end in combinations(range(len(word) + 1), 3):
        found.append([*word[:begin], *word[middle:end], *word[begin:middle], *word[end:]])
    for one, other in combinations(range(len(word)), 2):
        swapped = [*word]
        swapped[one], swapped[other] = word[other], word[one]
        found.append(swapped)
    return [list(each) for each in dict.fromkeys(map(tuple, found)) if list(each) != word]
