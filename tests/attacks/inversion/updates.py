"""What federated clients really send: updates made from a client's pages, by name, as the server sees them."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor

from pfl_audit.attacks.inversion.clients import batch_of, share
from pfl_audit.attacks.inversion.context import Truth
from pfl_audit.models.gradient_protocol import GradientModel, gradient_of
from pfl_audit.training.federated.nf4 import NF4

Update = dict[str, Tensor]
Optimizer = Callable[[list[torch.nn.Parameter]], torch.optim.Optimizer]


def gradient(model: GradientModel, pages: Sequence[Truth]) -> Update:
    """One gradient, the mean over the pages."""
    return share(model, pages)


def clipped(update: Mapping[str, Tensor], norm: float = 1.0) -> Update:
    """Scaled down to a norm."""
    size = float(torch.stack([part.double().norm() for part in update.values()]).norm())
    return {name: part * min(1.0, norm / size) for name, part in update.items()}


def rounded(update: Mapping[str, Tensor], kind: torch.dtype) -> Update:
    """In half precision."""
    return {name: part.to(kind).float() for name, part in update.items()}


def sparse(update: Mapping[str, Tensor], share_kept: float = 0.01) -> Update:
    """The largest entries of every tensor."""

    def largest(part: Tensor) -> Tensor:
        kept = max(1, round(share_kept * part.numel()))
        least = part.abs().flatten().topk(kept).values[-1]
        return torch.where(part.abs() >= least, part, torch.zeros_like(part))

    return {name: largest(part) for name, part in update.items()}


def integers(
    update: Mapping[str, Tensor], levels: int = 127, *, by_row: bool = False, seed: int | None = None
) -> Update:
    """Rounded to whole multiples of a step of each tensor, or of each row; by chance, up or down, with a seed."""
    generator = torch.Generator().manual_seed(seed or 0)

    def whole(part: Tensor) -> Tensor:
        flat = part.flatten(1) if by_row and part.dim() > 1 else part.reshape(1, -1)
        step = (flat.abs().amax(dim=1, keepdim=True) / levels).clamp_min(1e-30)
        steps = flat / step
        up = torch.rand(steps.shape, generator=generator) if seed is not None else torch.full_like(steps, 0.5)
        return ((steps + up).floor() * step).reshape(part.shape)

    return {name: whole(part) for name, part in update.items()}


def nf4(update: Mapping[str, Tensor]) -> Update:
    """By the codec of this project."""
    return {
        name: NF4.decode(NF4.encode(part.flatten().float()), part.numel()).reshape(part.shape)
        for name, part in update.items()
    }


def noisy(update: Mapping[str, Tensor], sigma: float, seed: int = 0) -> Update:
    """With Gaussian noise on every entry."""
    generator = torch.Generator().manual_seed(seed)
    return {name: part + sigma * torch.randn(part.shape, generator=generator) for name, part in update.items()}


def frozen(update: Mapping[str, Tensor], *parts: str) -> Update:
    """Without the tensors whose names hold one of these."""
    return {name: part for name, part in update.items() if not any(each in name for each in parts)}


def alone(update: Mapping[str, Tensor], *parts: str) -> Update:
    """Only the tensors whose names hold one of these."""
    return {name: part for name, part in update.items() if any(each in name for each in parts)}


def added(updates: Sequence[Mapping[str, Tensor]]) -> Update:
    """The sum over clients."""
    return {name: torch.stack([each[name] for each in updates]).sum(dim=0) for name in updates[0]}


def trained(
    model: GradientModel,
    pages: Sequence[Truth],
    steps: int,
    optimizer: Optimizer,
) -> Update:
    """The difference of weights after steps on the same pages, in float32; the model is as before."""
    network = model.network
    before = copy.deepcopy(network.state_dict())
    names = dict(network.named_parameters())
    work = optimizer(list(names.values()))
    for _ in range(steps):
        parts = gradient_of(model, *batch_of(model, pages))
        for name, parameter in names.items():
            parameter.grad = parts.get(name)
        work.step()
    with torch.no_grad():
        change = {name: (parameter.detach() - before[name]).clone() for name, parameter in names.items()}
    work.zero_grad(set_to_none=True)
    network.load_state_dict(before)
    return change


QUERIES_AND_VALUES = (
    "Attention.q.",
    "Attention.v.",
    "self.query.w",
    "self.value.w",
    "self_attn.q_proj.w",
    "self_attn.v_proj.w",
)
"""Parts of the names of their matrices: VT5, LayoutLMv3, Donut."""


def dropped(model: GradientModel, pages: Sequence[Truth], rate: float = 0.1, seed: int = 0) -> Update:
    """One gradient with every dropout of the network at this rate, as in training mode; the model is as before."""
    layers = list(model.network.modules())
    rates = [(layer, "p" if isinstance(layer, torch.nn.Dropout) else "dropout") for layer in layers]
    rates = [(layer, name) for layer, name in rates if isinstance(getattr(layer, name, None), float)]
    before = [getattr(layer, name) for layer, name in rates]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        for layer, name in rates:
            setattr(layer, name, rate)
            layer.training = True
        update = share(model, pages)
    for (layer, name), kept in zip(rates, before, strict=True):
        setattr(layer, name, kept)
        layer.training = False
    return update


WHOLE = (
    "spatial_embedding.",
    "visual_emb_matcher.",
    *(f"layoutlmv3.embeddings.{table}" for table in ("position_", "x_", "y_", "h_", "w_")),
    "layoutlmv3.patch_embed.",
)
"""Parts of the names of what is trained whole beside adapters, as the competition's winner did: of a VT5 the spatial
embedding and the layer of patches, of a LayoutLMv3 the tables of positions and coordinates and the layer of patches."""


def adapters(update: Mapping[str, Tensor], rank: int = 6, seed: int = 0, up: float = 0.0) -> Update:
    """A gradient of low-rank adapters on q and v, and of what is trained whole beside them.

    With y = W x + B A x the gradients are dL/dA = B^T dL/dW and dL/dB = dL/dW A^T, where the update is one of the
    weights W + B A.

    Args:
        up: Standard deviation of the halves B, which are zero in the first round; the halves A are random.
    """
    generator = torch.Generator().manual_seed(seed)
    made = alone(update, *WHOLE)
    for name, part in alone(update, *QUERIES_AND_VALUES).items():
        stem, down = name.removesuffix("weight"), torch.randn(rank, part.shape[1], generator=generator)
        second = up * torch.randn(part.shape[0], rank, generator=generator)
        made[f"{stem}lora_A.weight"], made[f"{stem}lora_B.weight"] = second.t() @ part, part @ down.t()
    return made


def later_round(
    model: GradientModel,
    pages: Sequence[Truth],
    others: Sequence[Truth],
    rate: float = 1e-3,
    rank: int = 6,
    seed: int = 0,
) -> Update:
    """A gradient of adapters whose halves B one step of Adam on other pages made; the model is as before.

    Adam's first step is the sign of the gradient times the rate. The scale of adapters is 16 / rank, as in training.
    """
    generator, scale, halves = torch.Generator().manual_seed(seed), 16 / rank, {}
    before = {name: part.detach().clone() for name, part in model.network.named_parameters()}
    for name, part in alone(share(model, others), *QUERIES_AND_VALUES).items():
        down = torch.randn(rank, part.shape[1], generator=generator) / part.shape[1] ** 0.5
        halves[name] = (down, -rate * (part @ down.t()).sign())
    with torch.no_grad():
        weights = dict(model.network.named_parameters())
        for name, (down, up) in halves.items():
            weights[name].add_(scale * up @ down)
    gradient = share(model, pages)
    with torch.no_grad():
        for name, part in model.network.named_parameters():
            part.copy_(before[name])
    made = alone(gradient, *WHOLE)
    for name, (down, up) in halves.items():
        stem = name.removesuffix("weight")
        made[f"{stem}lora_A.weight"], made[f"{stem}lora_B.weight"] = (
            scale * up.t() @ gradient[name],
            scale * gradient[name] @ down.t(),
        )
    return made


def sgd(rate: float) -> Optimizer:
    """Plain steps."""
    return lambda parameters: torch.optim.SGD(parameters, lr=rate)


def adamw(rate: float, decay: float = 0.01) -> Optimizer:
    """AdamW as PyTorch has it."""
    return lambda parameters: torch.optim.AdamW(parameters, lr=rate, weight_decay=decay)
