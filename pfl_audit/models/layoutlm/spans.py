"""Spans of a page: the likeliest one, and that of an answer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

LONGEST_ANSWER = 30
"""Most tokens of an answer, as in the usual evaluation of SQuAD."""


def best_span(
    starts: NDArray[np.float64], ends: NDArray[np.float64], longest: int = LONGEST_ANSWER
) -> tuple[int, int, float] | None:
    """Find the span with the largest product of start and end probability.

    Args:
        starts: Logarithms of the start probabilities, (tokens,).
        ends: Logarithms of the end probabilities, (tokens,).
        longest: Most tokens of a span.

    Returns:
        First and last token and the sum of the two logarithms; of equal ones the first, then the shortest.
        None where there are no tokens.
    """
    if len(starts) == 0:
        return None
    after = np.concatenate([ends, np.full(longest - 1, -np.inf)])
    scores = starts[:, None] + np.lib.stride_tricks.sliding_window_view(after, longest)
    first, extent = divmod(int(np.argmax(scores)), longest)
    return first, first + extent, float(scores[first, extent])


def find_answer(words: Sequence[str], answer: str) -> tuple[int, int] | None:
    """The first place of ``find_answers``; None if the answer is not on the page, or is empty."""
    return next(find_answers(words, answer), None)


def find_answers(words: Sequence[str], answer: str) -> Iterator[tuple[int, int]]:
    """Find the occurrences of an answer on a page, word by word, in lower case.

    Args:
        words: Words of the page. One that holds blanks counts as several.
        answer: Split at its blanks.

    Yields:
        First and last word of each, in their order.
    """
    wanted = answer.lower().split()
    parts = [(part, number) for number, word in enumerate(words) for part in word.lower().split()]
    for at in range(len(parts) - len(wanted) + 1) if wanted else ():
        if all(parts[at + offset][0] == part for offset, part in enumerate(wanted)):
            yield parts[at][1], parts[at + len(wanted) - 1][1]
