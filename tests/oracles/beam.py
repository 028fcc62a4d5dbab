"""Answers of a decoder by brute force: all of a tiny vocabulary, and a beam that keeps everything in plain lists."""

import math
from collections.abc import Callable, Collection

Next = Callable[[tuple[int, ...]], list[float]]
"""Log-probabilities of the token after a prefix."""


def every_answer(after: Next, ends: Collection[int], longest: int) -> list[tuple[tuple[int, ...], float]]:
    """All answers with the mean log-likelihood of their tokens, the end included, likeliest first.

    Ends that follow the same tokens give one answer; what has no end after ``longest`` tokens counts as it is.
    """
    found: list[tuple[tuple[int, ...], float]] = []
    prefixes: list[tuple[tuple[int, ...], float]] = [((), 0.0)]
    for length in range(1, longest + 1):
        longer = []
        for prefix, log in prefixes:
            logs = after(prefix)
            ended = sum(math.exp(logs[end]) for end in ends)
            found.append((prefix, (log + math.log(ended)) / length))
            longer += [((*prefix, token), log + logs[token]) for token in range(len(logs)) if token not in ends]
        prefixes = longer
    found += [(prefix, log / longest) for prefix, log in prefixes]
    return sorted((one for one in found if one[1] > -math.inf), key=lambda one: (-one[1], one[0]))


def narrow(
    after: Next, width: int, ends: Collection[int], longest: int, barred: Collection[int] = ()
) -> list[tuple[tuple[int, ...], float]]:
    """A beam: as above, but only the likeliest ``width`` prefixes are continued, and the search ends as ours does."""
    done: list[tuple[tuple[int, ...], float]] = []
    live: list[tuple[tuple[int, ...], float]] = [((), 0.0)]
    for length in range(1, longest + 1):
        longer = []
        for prefix, log in live:
            logs = after(prefix)
            done.append((prefix, (log + math.log(sum(math.exp(logs[end]) for end in ends))) / length))
            usable = [token for token in range(len(logs)) if token not in ends and token not in barred]
            longer += [((*prefix, token), log + logs[token]) for token in usable]
        live = sorted(longer, key=lambda one: -one[1])[:width]
        if length == longest:
            done += [(prefix, log / length) for prefix, log in live]
        done = sorted(done, key=lambda one: (-one[1], one[0]))[:width]
        if len(done) == width and live and live[0][1] / length <= done[-1][1]:
            break
    return done
