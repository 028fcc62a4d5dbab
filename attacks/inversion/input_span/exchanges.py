"""Two replacements at a time, in a model in which the effects of replacements add up.

Tokens in two boxes exchanged change the sum of a text's inputs by little, so that neither of them alone is nearer to
the span: a search by single replacements ends there. With r what is left of a text and d_i what replacement i adds to
it, pairs are compared by

    |r + d_i + d_j|^2 = |r|^2 + (2 r d_i + d_i d_i) + (2 r d_j + d_j d_j) + 2 d_i d_j

which takes one product of a matrix with its transpose for all of them.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from pfl_audit.metrics.arrays import Integers

Singles = NDArray[np.float32]

_STEPS: Final = 200
"""Pairs that are exchanged at most."""
_LESS: Final = 1e-6
"""Share of what is left by which an exchange must lower it; single precision leaves about a tenth of that."""


def exchanged(effects: Singles, left: Singles, place: Integers, chosen: Integers) -> Integers:
    """Exchange one or two choices at a time for those that leave least, until no exchange leaves less.

    Args:
        effects: float32 (n, k), what each choice adds to what is left; zeros for a present one.
        left: float32 (k,), what is left now.
        place: int64 (n,), the place of each choice.
        chosen: int64 (places,), the present choice of each place.

    Returns:
        int64 (places,), the new choices.
    """
    gram, toward, chosen = effects @ effects.T, effects @ left, chosen.copy()
    own, same = np.diag(gram), place[:, None] == place[None]
    least = _LESS * float(left @ left)
    for _ in range(_STEPS):
        now = chosen[place]
        pairs = 2 * (gram - gram[:, now] - gram[now] + gram[now][:, now])
        alone = 2 * (toward - toward[now]) + own + own[now] - 2 * gram[np.arange(len(now)), now]
        pairs += alone[:, None] + alone
        pairs[same] = np.inf
        np.fill_diagonal(pairs, alone)
        first, second = divmod(int(pairs.argmin()), len(now))
        if pairs[first, second] > -least:
            break
        for choice in {first, second}:
            toward = toward + gram[choice] - gram[chosen[place[choice]]]
            chosen[place[choice]] = choice
    return chosen
