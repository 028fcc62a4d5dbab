"""The tensors of a network that are trained, as one flat vector: each once, however many names it has."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Never

import torch
from torch import Tensor, nn

from pfl_audit.errors import AuditError
from pfl_audit.models.training_protocol import INPUT_ROWS, TrainableModel

_LISTED = 3


class Trainable:
    """What moves in training.

    Tied weights are one tensor, so one part of the vector: they count once for a norm and get one
    draw of noise. Frozen tensors are no part of it.

    Args:
        network: Whose parameters that require a gradient are meant.

    Attributes:
        parameters: In the network's order.
        names: Of the parameters; a tied one goes by its first name.
        size: Length of the vector.
        late: bool (tensors,), which need not move at first: the random halves of adapters, whose other halves begin
            at zero, and rows of tokens that only inputs of self-pretraining have.
    """

    def __init__(self, network: nn.Module) -> None:
        self._network = network
        named = [(name, parameter) for name, parameter in network.named_parameters() if parameter.requires_grad]
        self.names = tuple(name for name, _ in named)
        self.parameters = [parameter for _, parameter in named]
        self._sizes = [parameter.numel() for parameter in self.parameters]
        self.size = sum(self._sizes)
        self.late = torch.tensor([".lora_A." in name or INPUT_ROWS in name for name in self.names], dtype=torch.bool)

    @property
    def bytes_once(self) -> int:
        """Bytes of the vector as float32: what a message really holds."""
        return 4 * self.size

    @property
    def bytes_with_aliases(self) -> int:
        """Bytes where every name of a tied tensor is sent, as the papers' code does and counts."""
        mine = {id(parameter) for parameter in self.parameters}
        named = self._network.named_parameters(remove_duplicate=False)
        return sum(4 * parameter.numel() for _, parameter in named if id(parameter) in mine)

    def read(self) -> Tensor:
        """The vector, float32 (size,), on the CPU."""
        return torch.cat([parameter.detach().reshape(-1).to("cpu", torch.float32) for parameter in self.parameters])

    def parts(self, vector: Tensor) -> list[Tensor]:
        """Views of a vector, float32 (size,), in the shapes of the parameters."""
        split = zip(torch.split(vector, self._sizes), self.parameters, strict=True)
        return [part.view(parameter.shape) for part, parameter in split]

    def write(self, vector: Tensor) -> None:
        """Set the parameters to a vector, float32 (size,)."""
        with torch.no_grad():
            for parameter, part in zip(self.parameters, self.parts(vector), strict=True):
                parameter.copy_(part)

    def squared_distance(self, vector: Tensor, tensors: Sequence[Tensor] | None = None) -> Tensor:
        """Squared L2 distance from a vector, float32 (size,), with a gradient; float ().

        Args:
            tensors: In place of the parameters, of their shapes.
        """
        parts = zip(tensors or self.parameters, self.parts(vector), strict=True)
        return torch.stack([(tensor - part.to(tensor)).square().sum() for tensor, part in parts]).sum()

    def moved(self, update: Tensor) -> Tensor:
        """Which tensors an update changes, bool (tensors,)."""
        return torch.stack([part.any() for part in torch.split(update, self._sizes)])

    def require_moved(self, moved: Tensor) -> None:
        """Stop where a tensor that should be trained stayed as it was.

        Raises:
            AuditError: With the names of the first of them.
        """
        still = [name for name, did in zip(self.names, moved.tolist(), strict=True) if not did]
        if still:
            more = f" and {len(still) - _LISTED} more" if len(still) > _LISTED else ""
            raise AuditError(
                f"{len(still)} of {len(self.names)} trainable tensors did not move at the start of the training: "
                f"{', '.join(still[:_LISTED])}{more}",
                "Check that the model is whole; raise --learning-rate if it is tiny",
            )

    def frozen_digest(self) -> str:
        """SHA-256 of everything that must not move."""
        mine = {id(parameter) for parameter in self.parameters}
        digest = hashlib.sha256()
        for name, parameter in self._network.named_parameters():
            if id(parameter) not in mine:
                digest.update(name.encode())
                digest.update(parameter.detach().to("cpu", torch.float32).contiguous().numpy().tobytes())
        return digest.hexdigest()

    def require_frozen(self, digest: str) -> None:
        """Stop where something frozen moved after all.

        Raises:
            AuditError: Frozen tensors have another digest than ``digest``.
        """
        if self.frozen_digest() != digest:
            raise AuditError(
                "a frozen tensor moved at the start of the training", "Report this with the command and the model"
            )


def without_embeddings(network: nn.Module) -> Trainable:
    """Freeze all embedding tables, of tokens and of positions; an output layer tied to one is frozen with it."""
    for module in network.modules():
        if isinstance(module, nn.Embedding):
            module.requires_grad_(False)
    return Trainable(network)


def choose_trainable(model: TrainableModel[Never]) -> Trainable:
    """Mark all parameters of a model as trainable that it does not freeze."""
    for name, parameter in model.network.named_parameters():
        parameter.requires_grad_(not model.is_frozen(name))
    return Trainable(model.network)
