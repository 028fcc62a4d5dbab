"""A Donut's client as anyone would write it, and what its decoder sees, by running it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


def client_gradient(network: Any, ids: Sequence[Sequence[int]], labels: Sequence[Sequence[int]]) -> dict[str, Tensor]:
    """What a client shares for a batch of texts on pages of chance, by ``named_parameters``; shorter texts padded."""
    longest = max(map(len, ids))
    pad = network.config.decoder.pad_token_id
    size = network.config.encoder.image_size
    chance = torch.Generator().manual_seed(len(ids[0]))
    network.zero_grad()
    network(
        pixel_values=torch.rand(len(ids), 3, *size, generator=chance) * 2 - 1,
        decoder_input_ids=torch.tensor([[*row, *[pad] * (longest - len(row))] for row in ids]),
        labels=torch.tensor([[*row, *[-100] * (longest - len(row))] for row in labels]),
    ).loss.backward()
    return {name: each.grad.clone() for name, each in network.named_parameters() if each.grad is not None}


def seen(network: Any, ids: Sequence[int]) -> Tensor:
    """What the first self-attention makes its queries of, (tokens, width), caught on the way."""
    caught: list[Tensor] = []
    layer = network.decoder.model.decoder.layers[0].self_attn.q_proj
    handle = layer.register_forward_pre_hook(lambda _, inputs: caught.append(inputs[0].detach()))
    visible = torch.zeros(1, 1, network.config.decoder.d_model)
    network.decoder(input_ids=torch.tensor([list(ids)]), encoder_hidden_states=visible, use_cache=False)
    handle.remove()
    return caught[0][0]


def distance(state: NDArray[np.float64], rows: NDArray[np.float64], cutoff: float) -> float:
    """How far a state is from every combination of rows, as a share of its length."""
    weights = np.linalg.lstsq(rows.T, state, rcond=cutoff)[0]
    return float(np.linalg.norm(rows.T @ weights - state) / np.linalg.norm(state))
