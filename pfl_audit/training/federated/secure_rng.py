"""Cryptographic random generator for the draws that privacy depends on, and seeds for all others.

Privacy depends on the noise, and on the secrecy of who was drawn into a round. Both come from SHAKE-256
over a secret key, with a separate context for every purpose, round and client: cryptographic, and
the same after a restart without storing a position. The key is drawn by the operating system and is
deleted with the run's state. With a seed for a key a run can be repeated, and so can its noise: such a
claim holds only against those who do not know the seed, and the record says so.

Normal numbers are ordinary float64 ones. They are not hardened against attacks on the gaps between
floating-point numbers (Mironov, 2012).
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

KEY_BYTES = 32
_PIECE = 1 << 20
"""Numbers that are drawn at once."""


def new_key(seed: int | None, use: str = "") -> bytes:
    """A secret key from the operating system, or one derived from ``seed``.

    Args:
        seed: Seed that the key is derived from, or None for a secret key.
        use: Purpose of the key: noise that two runs share would cancel out between their models.
    """
    return os.urandom(KEY_BYTES) if seed is None else hashlib.sha256(f"pfl-audit {seed} {use}".encode()).digest()


class SecretStream:
    """Random numbers that cannot be predicted without the key.

    Args:
        key: The key, KEY_BYTES long.
    """

    def __init__(self, key: bytes) -> None:
        self._key = key

    def uniform(self, size: int, *context: str | int) -> NDArray[np.float64]:
        """Independent uniform numbers, float64 (size,), in (0, 1)."""
        seed = self._key + "/".join(map(str, context)).encode()
        drawn = hashlib.shake_256(seed).digest(8 * size)
        # 52 bits, and half a step up, so that neither 0 nor 1 comes out.
        whole = np.frombuffer(drawn, dtype="<u8") >> np.uint64(12)
        return (whole.astype(np.float64) + 0.5) * 2.0**-52

    def normal(self, size: int, *context: str | int) -> NDArray[np.float32]:
        """Independent standard normal numbers, float32 (size,), by Box and Muller in float64."""
        out = np.empty(size, dtype=np.float32)
        for at in range(0, size, _PIECE):
            count = min(_PIECE, size - at)
            half = (count + 1) // 2
            radius, angle = self.uniform(2 * half, *context, "piece", at // _PIECE).reshape(2, half)
            radius = np.sqrt(-2.0 * np.log(radius))
            angle = 2.0 * np.pi * angle
            out[at : at + count] = np.concatenate([radius * np.cos(angle), radius * np.sin(angle)])[:count]
        return out

    def poisson_sample(self, rate: float, size: int, *context: str | int) -> list[int]:
        """Poisson sample of the numbers below ``size``, each drawn independently with probability ``rate``."""
        return np.flatnonzero(self.uniform(size, *context) < rate).tolist()

    def turns(self, separation: int, client: int, tags: Sequence[int]) -> NDArray[np.int64]:
        """Turn of each provider in a schedule, int64 (n,), below ``separation``: drawn once for all rounds."""
        drawn = [self.uniform(1, "turn", client, tag)[0] for tag in tags]
        return (np.array(drawn) * separation).astype(np.int64)

    def fixed_size_sample(self, count: int, size: int, *context: str | int) -> list[int]:
        """``count`` of the numbers below ``size``, drawn without replacement, ascending."""
        return smallest(self.uniform(size, *context), count)


def smallest(numbers: NDArray[np.float64], count: int) -> list[int]:
    """Indices of the ``count`` smallest numbers, ascending: of uniform numbers, a draw without replacement."""
    return sorted(np.argsort(numbers, kind="stable")[:count].tolist())


def seed_for(seed: int, *context: str | int) -> int:
    """A 63-bit seed for a purpose that privacy does not depend on."""
    digest = hashlib.sha256("/".join(map(str, [seed, *context])).encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1
