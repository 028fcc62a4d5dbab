"""Longest common substring of two texts in linear time."""

from __future__ import annotations


class SuffixAutomaton:
    """Suffix automaton of a text (Blumer et al., 1985)."""

    def __init__(self, text: str) -> None:
        self._next: list[dict[str, int]] = [{}]
        self._link = [-1]
        self._length = [0]
        last = 0
        for letter in text:
            last = self._append(letter, last)

    def longest_common_substring(self, other: str) -> int:
        """Length of the longest substring that also occurs in ``other``."""
        state = length = best = 0
        for letter in other:
            while state and letter not in self._next[state]:
                state = self._link[state]
                length = self._length[state]
            if letter in self._next[state]:
                state = self._next[state][letter]
                length += 1
                best = max(best, length)
        return best

    def _append(self, letter: str, last: int) -> int:
        new = self._add({}, self._length[last] + 1, 0)
        state = last
        while state >= 0 and letter not in self._next[state]:
            self._next[state][letter] = new
            state = self._link[state]
        if state < 0:
            return new
        follower = self._next[state][letter]
        if self._length[follower] == self._length[state] + 1:
            self._link[new] = follower
            return new
        copy = self._add(dict(self._next[follower]), self._length[state] + 1, self._link[follower])
        self._link[follower] = self._link[new] = copy
        while state >= 0 and self._next[state].get(letter) == follower:
            self._next[state][letter] = copy
            state = self._link[state]
        return new

    def _add(self, following: dict[str, int], length: int, link: int) -> int:
        self._next.append(following)
        self._length.append(length)
        self._link.append(link)
        return len(self._next) - 1
