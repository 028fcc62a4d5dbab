"""Codecs: how a vector is encoded in a message. They are found by entry point."""

from __future__ import annotations

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
CODECS: Final[Registry[Codec]] = Registry("pfl_audit.codecs", "message codec", ("summable", "encode", "decode"))


def payload_bytes(payload: Payload) -> int:
    """Bytes of a message, without what the transport adds."""
    return sum(tensor.numel() * tensor.element_size() for tensor in payload.values())
