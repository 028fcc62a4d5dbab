"""Dual variable of a client between rounds (DP-CLGECL; pfl-docvqa-competition, appendix D.2, algorithm 2).

The dual of a round is the dual of the client's round before it, plus the model that it receives minus its own model of
that round (line 17; a client that was not drawn in between takes its last own model). It is computed from a start
that depends on no data, from models of the server and from own messages that are private each by itself: it is
post-processing.
"""

from __future__ import annotations

import math
from pathlib import Path

import torch
from torch import Tensor

from pfl_audit.models.tensor_record import damaged, read_state, write_state
from pfl_audit.training.federated.secure_rng import SecretStream

FILES = "client-memory-*.safetensors"


class DualMemory:
    """Keeps the dual of a client on disk, readable by its owner only, until the run is finished.

    Args:
        folder: Folder of the client, or of a local run.
        run: Digest of what decides the run.
        client: Number of the client.
        divisor: Expected number of drawn providers of a participating client, for |M| of line 24.
        norm: Expected norm of the random start, in units of an update; 0 starts at zero. The paper gives no scale.
        stream: Secret random stream of the start.
    """

    def __init__(self, folder: Path, run: str, client: int, divisor: float, norm: float, stream: SecretStream) -> None:
        self._path = folder / FILES.replace("*", str(client))
        self._run, self._client = run, client
        self._divisor, self._norm, self._stream = divisor, norm, stream

    def dual(self, round_number: int, weights: Tensor) -> Tensor:
        """Dual of a round (lines 14 to 18); a round that is repeated after a failure has the same.

        Args:
            round_number: From 1.
            weights: The global model that the client receives, float32 (size,).

        Raises:
            UsageError: The file belongs to another run.
            AuditError: It is damaged, or of a later round.
        """
        found = read_state(self._path, self._run)
        if found is None:
            if not self._norm:
                return torch.zeros_like(weights)
            start = torch.from_numpy(self._stream.normal(len(weights), "dual", self._client))
            return start.mul_(self._norm / math.sqrt(len(weights)))
        record, tensors = found
        if not isinstance(record.get("round"), int) or record["round"] > round_number:
            raise damaged(self._path)
        if record["round"] == round_number:
            return tensors["dual"]
        return tensors["dual"] + (weights - tensors["model"])

    def keep(self, round_number: int, dual: Tensor, weights: Tensor, noisy_sum: Tensor) -> None:
        """Store the dual of a round and the client's own model after it (line 24).

        Args:
            round_number: From 1.
            dual: Dual of the round, float32 (size,).
            weights: The global model that the client received, float32 (size,).
            noisy_sum: The client's message, float32 (size,).
        """
        model = weights + noisy_sum / self._divisor
        write_state(self._path, self._run, {"round": round_number}, {"dual": dual, "model": model})
