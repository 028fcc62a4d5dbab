"""DP-CLGECL as printed (pfl-docvqa-competition, appendix D.2, algorithm 2), in float64, one client and group at a time.

Line 22 prints w in place of the difference of line 21, and is read as that. In line 17 a client takes its own last
model. |M| and |K| are the numbers to expect.
"""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]


def train(
    weights: Vector,
    rounds: Sequence[Mapping[int, Sequence[int]]],
    local: Callable[[int, Vector], Vector],
    noise: Callable[[int, int], Vector],
    start: Callable[[int], Vector],
    bound: float,
    expected: tuple[float, float],
) -> list[Vector]:
    """Global models after every round.

    Args:
        rounds: For each round, client to the groups that it draws.
        local: Group and model to the locally trained model (line 21).
        noise: Round and client to the noise of its message.
        start: Client to its first dual.
        bound: S.
        expected: Clients of a round, and groups of a client.
    """
    duals: dict[int, Vector] = {}
    models: dict[int, Vector] = {}
    found = []
    for number, drawn in enumerate(rounds, 1):
        updates = np.zeros_like(weights)
        for client, groups in drawn.items():
            duals[client] = duals[client] + weights - models[client] if client in duals else start(client)
            total = noise(number, client)
            for group in groups:
                difference = local(group, weights) - weights + duals[client]
                total = total + difference / max(1.0, float(np.linalg.norm(difference)) / bound)
            models[client] = weights + total / expected[1]
            updates = updates + (models[client] - weights)
        weights = weights + updates / expected[0]
        found.append(weights)
    return found
