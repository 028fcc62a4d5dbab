"""All designs by name."""

from __future__ import annotations

from tests.bench.rates import canaries, documents, inversion, membership, memorization, reconstruction
from tests.bench.rates.engine import Design

_ROOMS = (membership, memorization, reconstruction, documents, canaries, inversion)

DESIGNS: dict[str, Design] = {one.name: one for room in _ROOMS for one in room.DESIGNS}
