"""A model that answers questions, placed: its arithmetic, and batches that fit in the memory of its device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pfl_audit.documents.document import Query
from pfl_audit.models.batch_budget import BatchBudget
from pfl_audit.models.device import computing, release_memory
from pfl_audit.models.family import Precision
from pfl_audit.models.protocol import DocumentModel, Guess, Response, Score

BUDGET = "batch_budget"
"""Attribute of a placed model."""


def place(model: DocumentModel, device: str, precision: Precision, batch_tokens: int | None) -> DocumentModel:
    """Replace the methods of a model that compute by ones that keep to a precision and to the memory at hand.

    They are replaced on the object, so that it keeps the protocols that its family has, also one from outside.

    Args:
        device: Torch's name of the device that it is on.
        precision: Floating-point type of its matrix products.
        batch_tokens: Largest number of tokens in a batch, in place of the model's own limit; None for that.
    """
    inner: Any = model
    forget = getattr(inner, "forget_pages", lambda: None)

    def release() -> None:
        forget()
        release_memory(device)

    budget = BatchBudget(batch_tokens, release, device)
    placed: dict[str, object] = {}
    own_size, own_respond = inner.batch_size, inner.respond

    def batch_size(cost: int) -> int:
        return budget.size(cost, own_size(cost))

    def respond(queries: Sequence[Query]) -> list[Response]:
        with computing(device, precision):
            return list(budget.run(queries, inner.cost, own_respond))

    placed |= {"batch_size": batch_size, "respond": respond}
    if own_losses := getattr(inner, "candidate_losses", None):

        def candidate_losses(query: Query, values: Sequence[str]) -> list[Score]:
            with computing(device, precision):
                return list(budget.run(values, lambda _: inner.cost(query), lambda some: own_losses(query, some)))

        placed["candidate_losses"] = candidate_losses
    if own_guess := getattr(inner, "guess", None):

        def guess(queries: Sequence[Query], width: int) -> list[list[Guess]]:
            with computing(device, precision):
                return list(
                    budget.run(queries, lambda query: width * inner.cost(query), lambda some: own_guess(some, width))
                )

        placed["guess"] = guess
    for name, method in placed.items():
        setattr(inner, name, method)
    setattr(inner, BUDGET, budget)
    return model


def tokens_found(model: object) -> int | None:
    """Tokens of a batch that the memory of a placed model was found to have room for; None where it did not run out."""
    budget = getattr(model, BUDGET, None)
    return budget.found if isinstance(budget, BatchBudget) else None
