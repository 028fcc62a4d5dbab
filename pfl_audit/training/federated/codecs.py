"""Codecs: how a vector is encoded in a message. They are found by entry point."""

from __future__ import annotations

import hashlib
from typing import Final, Protocol

from torch import Tensor

from pfl_audit.registry import Registry

Payload = dict[str, Tensor]
"""What is sent: named tensors. Its bytes are those of the tensors."""


class Codec(Protocol):
    """Encodes vectors as messages and decodes them."""

    @property
    def summable(self) -> bool:
        """Whether the sum of encoded vectors encodes the sum, as secure aggregation needs."""
        ...

    @property
    def lossy(self) -> bool:
        """Whether decoding rounds the numbers. The model is then sent as its difference from the start."""
        ...

    def encode(self, vector: Tensor) -> Payload:
        """Map a vector, float32 (size,), to what is sent."""

    def decode(self, payload: Payload, size: int) -> Tensor:
        """Map what was sent to a vector, float32 (size,).

        Raises:
            ValueError, KeyError: The payload is not one of a vector of this size.
        """


class Float32:
    """Float32 without compression: 4 bytes a number."""

    summable = True
    lossy = False

    def encode(self, vector: Tensor) -> Payload:
        """One tensor."""
        return {"vector": vector}

    def decode(self, payload: Payload, size: int) -> Tensor:
        """That tensor."""
        vector = payload["vector"]
        if vector.shape != (size,):
            raise ValueError(f"a vector of {size} numbers is expected")
        return vector


FLOAT32: Final = Float32()
CODECS: Final[Registry[Codec]] = Registry(
    "pfl_audit.codecs", "message codec", ("summable", "lossy", "encode", "decode")
)


def outgoing_model(codec: Codec, weights: Tensor, start: Tensor) -> Tensor:
    """What is encoded of the global model, float32 (size,).

    With a lossy codec it is the difference from the start, which every client holds: the first message is exact, and
    rounding is relative to what was learned (pfl-docvqa-competition, Table A5: round 1 has no download).

    Args:
        start: Trained tensors of the checkpoint that the run begins with, float32 (size,).
    """
    return weights - start if codec.lossy else weights


def incoming_model(codec: Codec, decoded: Tensor, start: Tensor) -> Tensor:
    """The global model, float32 (size,), from what was decoded: the inverse of outgoing_model."""
    return decoded + start if codec.lossy else decoded


def vector_digest(vector: Tensor) -> str:
    """SHA-256 of a vector, float32 (size,)."""
    return hashlib.sha256(vector.numpy().tobytes()).hexdigest()


def payload_bytes(payload: Payload) -> int:
    """Bytes of a message, without what the transport adds."""
    return sum(tensor.numel() * tensor.element_size() for tensor in payload.values())
