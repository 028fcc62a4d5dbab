"""What counts as right on the validation forms: whole fields, whole links, masked tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor

from pfl_audit.models.encoders.batch import FormBatch
from pfl_audit.models.encoders.config import EncoderConfig
from pfl_audit.models.encoders.losses import window_hits, window_means
from pfl_audit.models.encoders.network import FormEncoder
from pfl_audit.models.encoders.tags import OUTSIDE
from pfl_audit.models.samples import IGNORED

Fields = set[tuple[str, tuple[int, ...]]]
"""(label, tokens) of every field."""

MEASURE: Final = {
    "mlm": "share of the masked tokens that are predicted right, under a mask that never changes",
    "ee-bio": "F1 of whole fields: label and every token right",
    "ee-spade": "F1 of whole fields: label and every token right",
    "el": "F1 of links between fields",
}
"""What ``accuracy`` is, task by task."""


@dataclass(frozen=True)
class Counts:
    """Things that were found, and that there are.

    Attributes:
        right: Found and there.
        found: All that were found.
        there: All that there are.
    """

    right: int = 0
    found: int = 0
    there: int = 0

    def __add__(self, other: Counts) -> Counts:
        return Counts(self.right + other.right, self.found + other.found, self.there + other.there)

    @property
    def f1(self) -> float:
        """Harmonic mean of precision and recall, 0 to 1; where found and there are equal, the share of right ones."""
        return 2 * self.right / max(1, self.found + self.there)


@torch.no_grad()
def score(network: FormEncoder, batch: FormBatch) -> tuple[list[float], Counts]:
    """The loss of each window, as ``FormEncoder.loss``, and what was predicted right; one pass.

    Args:
        network: In evaluation mode.
        batch: With labels.
    """
    if network.config.task == "mlm":
        assert batch.classes is not None  # noqa: S101 - labelled
        logits = network.class_logits(network.hidden(batch)[batch.classes != IGNORED])
        right, masked = window_hits(logits, batch.classes, None).sum(dim=0).tolist()
        return window_means(logits, batch.classes).tolist(), Counts(right, masked, masked)
    said = network(batch)
    losses = torch.zeros(len(batch), device=batch.ids.device)
    for logits, labels in ((said.classes, batch.classes), (said.pointers, batch.pointers)):
        if labels is not None:
            losses = losses + window_means(logits[labels != IGNORED], labels)
    nowhere = batch.ids.shape[1]
    told = _things(network.config, _said(said.classes, batch.classes), _said(said.pointers, batch.pointers), nowhere)
    truth = _things(network.config, batch.classes, batch.pointers, nowhere)
    return losses.tolist(), Counts(len(told & truth), len(told), len(truth))


def bio_fields(tags: Sequence[str]) -> Fields:
    """Fields that a row of BIO tags names; an ``I`` that continues nothing begins a field, as conlleval has it."""
    fields: list[tuple[str, list[int]]] = []
    before = ""
    for token, tag in enumerate(tags):
        part, _, label = tag.partition("-")
        if tag != OUTSIDE:
            if part == "B" or before != label:
                fields.append((label, []))
            fields[-1][1].append(token)
        before = label
    return {(label, tuple(tokens)) for label, tokens in fields}


def spade_fields(tags: Sequence[str], pointers: Sequence[int]) -> Fields:
    """Fields that first tokens and pointers to predecessors name (BROS, section 4.2).

    Args:
        tags: A label for the first token of a field, else ``O``.
        pointers: The predecessor of each token, or a number that no token has. Of several that point to one
            token, the first follows it; a field ends before a token that it has.
    """
    following = {pointer: token for token, pointer in reversed(list(enumerate(pointers)))}
    fields: Fields = set()
    for first, tag in enumerate(tags):
        if tag == OUTSIDE:
            continue
        tokens = [first]
        while (token := following.get(tokens[-1])) is not None and token not in tokens:
            tokens.append(token)
        fields.add((tag, tuple(tokens)))
    return fields


def _said(logits: Tensor | None, labels: Tensor | None) -> Tensor | None:
    """The likeliest answers, int64 (b, n), where the labels ask for one."""
    if logits is None or labels is None:
        return None
    return logits.argmax(dim=-1).masked_fill(labels == IGNORED, IGNORED)


def _things(
    config: EncoderConfig, classes: Tensor | None, pointers: Tensor | None, nowhere: int
) -> set[tuple[object, ...]]:
    """Fields, or where there are no classes links, that labels or answers name, each with its row."""
    things: set[tuple[object, ...]] = set()
    if classes is None:
        assert pointers is not None  # noqa: S101 - one of the two is there
        for row, token in ((pointers != IGNORED) & (pointers != nowhere)).nonzero().tolist():
            things.add((row, token, int(pointers[row, token])))
        return things
    following = pointers.tolist() if pointers is not None else [None] * len(classes)
    for row, (numbers, targets) in enumerate(zip(classes.tolist(), following, strict=True)):
        tags = [config.tags[number] if number != IGNORED else OUTSIDE for number in numbers]
        fields = bio_fields(tags) if targets is None else spade_fields(tags, targets)
        things.update((row, *field) for field in fields)
    return things
