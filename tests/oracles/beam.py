"""Answers of a decoder by a beam that keeps everything in plain lists."""

import math
from collections.abc import Callable, Collection

Next = Callable[[tuple[int, ...]], list[float]]
"""Log-probabilities of the token after a prefix."""


def narrow(
    after: Next, width: int, ends: Collection[int], longest: int, barred: Collection[int] = ()
) -> list[tuple[tuple[int, ...], float]]:
    """Answers with the mean log-likelihood of their tokens, the end included, likeliest first.

    Ends that follow the same tokens give one answer; what has no end after ``longest`` tokens counts as it is. Only the
    likeliest ``width`` prefixes are continued, until as many answers are finished and no prefix is likelier.
    """
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
