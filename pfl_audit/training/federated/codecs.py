"""Codecs: how a vector is encoded in a message. Quantised messages would be another codec."""

from __future__ import annotations

from typing import Final, Protocol

from torch import Tensor

Payload = dict[str, Tensor]
"""What is sent: named tensors. Its bytes are those of the tensors."""


class Codec(Protocol):
    """Encodes vectors as messages and decodes them."""

    def encode(self, vector: Tensor) -> Payload:
        """Map a vector, float32 (size,), to what is sent."""

    def decode(self, payload: Payload) -> Tensor:
        """Map what was sent to a vector, float32 (size,)."""


class Float32:
    """Float32 without compression: 4 bytes a number."""

    def encode(self, vector: Tensor) -> Payload:
        """One tensor."""
        return {"vector": vector}

    def decode(self, payload: Payload) -> Tensor:
        """That tensor."""
        return payload["vector"]


CODEC: Final[Codec] = Float32()
"""Of every engine, and of what is counted as sent."""


def payload_bytes(payload: Payload) -> int:
    """Bytes of a message, without what the transport adds."""
    return sum(tensor.numel() * tensor.element_size() for tensor in payload.values())
