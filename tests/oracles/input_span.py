"""Which tokens can stand in which boxes, with the first attention's inputs known: one least-squares fit a pair."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from pfl_audit.attacks.inversion.clients import batch_of
from pfl_audit.attacks.inversion.context import Truth
from pfl_audit.models.vt5.gradients import Vt5Gradients

_SINGLE = 1e-4
"""Share of an input that single precision and weak differences of boxes leave beside the span."""


def pairs_beside_inputs(model: Vt5Gradients, truths: list[Truth]) -> set[tuple[int, ...]]:
    """Every token of the vocabulary with every box of the pages, int (token, left, top, right, bottom), in the span."""
    boxes = torch.cat([truth.text["boxes"] for truth in truths]).unique(dim=0)
    inputs = inputs_of(model, truths)
    words = model.network.language_backbone.shared.weight.detach()
    with torch.no_grad():
        places = model.network.spatial_embedding(boxes)
    scale = model.network.language_backbone.encoder.block[0].layer[0].layer_norm.weight.detach()
    found = set()
    for box, place in zip(boxes.tolist(), places, strict=True):
        states = ((words + place) * scale).double().numpy()
        fit, *_ = np.linalg.lstsq(inputs.T, states.T, rcond=1e-9)
        left = np.linalg.norm(states - fit.T @ inputs, axis=1) / np.linalg.norm(states, axis=1)
        found |= {(int(token), *box) for token in np.flatnonzero(left < _SINGLE)}
    return found


def inputs_of(model: Vt5Gradients, truths: list[Truth]) -> NDArray[np.float64]:
    """What the query matrix of the first attention was given, float64 (tokens and patches, width)."""
    held: list[torch.Tensor] = []
    query = model.network.language_backbone.encoder.block[0].layer[0].SelfAttention.q
    with query.register_forward_pre_hook(lambda _, given: held.append(given[0])), torch.no_grad():
        model.loss(*batch_of(model, truths))
    states = held[0].reshape(-1, held[0].shape[-1]).double().numpy()
    return np.asarray(states[states.any(axis=1)])


def feed_inputs_of(model: Vt5Gradients, truth: Truth) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """What the first feed-forward layer was given, float64 (tokens and patches, width), and what it was divided by."""
    held: list[torch.Tensor] = []
    feed = model.network.language_backbone.encoder.block[0].layer[1]
    with feed.layer_norm.register_forward_hook(lambda _, given, out: held.extend((given[0], out))), torch.no_grad():
        model.loss(*batch_of(model, [truth]))
    before, after = (part[0].double().numpy() for part in held)
    return np.asarray(after), np.sqrt(np.square(before).mean(axis=1) + feed.layer_norm.variance_epsilon)


def best_pair(
    effects: NDArray[np.float32], left: NDArray[np.float32], place: NDArray[np.int64], chosen: NDArray[np.int64]
) -> list[int]:
    """The one or two choices, of different places, that leave least if they are made beside the others; none if the
    present ones do: every pair in turn."""

    def length(made: list[int]) -> float:
        own = chosen.copy()
        for choice in made:
            own[place[choice]] = choice
        return float(np.square(left + effects[own].sum(axis=0)).sum())

    every = [[i] for i in range(len(effects))]
    every += [[i, j] for i in range(len(effects)) for j in range(i) if place[i] != place[j]]
    best = min(every, key=length)
    return best if length(best) < length([]) - 1e-5 else []
