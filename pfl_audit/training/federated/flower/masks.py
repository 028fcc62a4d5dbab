"""Masks of SecAgg+ from a stream cipher.

Flower 1.41 folds the 32-byte key of a mask into 28 or 32 bits and feeds them to a Mersenne Twister, so a
server finds a client's update by trying all of them, in minutes. Same protocol, other generator: the
server and every client must have it.
"""

from __future__ import annotations

import hashlib
import importlib
from collections.abc import Sequence

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray

_MODULES = (
    "flwr.client.mod.secure_aggregation.secaggplus_mod",
    "flwr.server.workflow.secure_aggregation.secaggplus_workflow",
)
_FUNCTION = "pseudo_rand_gen"
_RANGE = 1 << 32
_PURPOSE = b"pfl-audit mask"


def masks(seed: bytes, num_range: int, dimensions_list: Sequence[tuple[int, ...]]) -> list[NDArray[np.int64]]:
    """Uniform whole numbers in [0, 2³²) by AES-256-CTR under SHA-256 of the seed.

    Args:
        seed: Secret of the mask; each is used once.
        num_range: 2³².
        dimensions_list: Shapes that are wanted.
    """
    if num_range != _RANGE:
        raise ValueError("masks have 32 bits")
    key = hashlib.sha256(_PURPOSE + seed).digest()
    # The key is new for every mask, so the counter may begin at zero.
    stream = Cipher(algorithms.AES(key), modes.CTR(bytes(16))).encryptor()
    drawn = []
    for shape in dimensions_list:
        size = int(np.prod(shape))
        drawn.append(np.frombuffer(stream.update(bytes(4 * size)), dtype="<u4").astype(np.int64).reshape(shape))
    return drawn


def install() -> None:
    """Put it in place of Flower's.

    Raises:
        RuntimeError: This Flower draws its masks in another way.
    """
    for name in _MODULES:
        module = importlib.import_module(name)  # the packages export functions of the modules' own names
        if not hasattr(module, _FUNCTION):
            raise RuntimeError(f"{name} no longer draws its masks with {_FUNCTION}")
        setattr(module, _FUNCTION, masks)
