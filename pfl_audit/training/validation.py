"""How well a model under training reads pages that it is not trained on."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from pfl_audit.documents.document import Query
from pfl_audit.metrics.answers import accuracy, anls
from pfl_audit.models.vt5.checkpoint import LoadedVt5
from pfl_audit.models.vt5.model import Vt5Responder


def validate(loaded: LoadedVt5, queries: Sequence[Query], device: str = "cpu") -> dict[str, float]:
    """Mean ANLS and accuracy over ``queries``, in evaluation mode; chance is left as it was."""
    chance = torch.get_rng_state()
    loaded.network.eval()
    responder = Vt5Responder(loaded.network, loaded.tokenizer, device)
    ordered = sorted(queries, key=responder.cost)
    scores: list[tuple[float, float]] = []
    for at in range(0, len(ordered), 32):
        batch = ordered[at : at + 32]
        for query, response in zip(batch, responder.respond(batch), strict=True):
            scores.append((anls(response.answer, query.answers), accuracy(response.answer, query.answers)))
    torch.set_rng_state(chance)
    return {
        "anls": sum(score for score, _ in scores) / len(scores),
        "accuracy": sum(score for _, score in scores) / len(scores),
    }
