"""Beam search over the answers of a decoder: the likeliest answers that a few prefixes at a time lead to."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from itertools import pairwise

import torch
from torch import Tensor
from transformers import EncoderDecoderCache

from pfl_audit.models.samples import require_finite_losses

Advance = Callable[[Tensor, Tensor], Tensor]
"""Continue rows of the step before, int64 (rows,), by a token each, int64 (rows,); gives log-probabilities of the next
token, float (rows, vocabulary). The rows of the first step are the questions, in order."""


@dataclass(frozen=True)
class Answer:
    """A finished answer.

    Attributes:
        tokens: Its tokens, without the end.
        mean: Mean log-likelihood of its tokens, the end included where there is one; natural logarithm.
    """

    tokens: tuple[int, ...]
    mean: float


@dataclass
class _Beam:
    """Search for the answers to one question: ``live`` are prefixes with their log-likelihoods, likeliest first."""

    live: list[tuple[float, tuple[int, ...]]] = field(default_factory=lambda: [(0.0, ())])
    done: list[Answer] = field(default_factory=list)

    def finish(self, answers: list[Answer], width: int) -> None:
        """Keep the likeliest ``width`` of all finished answers."""
        self.done = sorted([*self.done, *answers], key=lambda one: (-one.mean, one.tokens))[:width]

    def ended(self, width: int) -> bool:
        """Whether no prefix is likelier per token than the answer that it would have to replace."""
        if not self.live:
            return True
        log, tokens = self.live[0]
        return len(self.done) == width and bool(tokens) and log / len(tokens) <= self.done[-1].mean


def beam_search(
    first: Tensor, advance: Advance, width: int, ends: Collection[int], longest: int, barred: Collection[int] = ()
) -> list[list[Answer]]:
    """The likeliest answers to some questions; those to one do not depend on the others.

    Prefixes are compared by their log-likelihood, and finished answers by the mean over their tokens. The search of a
    question ends when ``width`` answers are finished and no prefix is likelier per token than the last of them.

    Args:
        first: Log-probabilities of the first token, float (questions, vocabulary).
        width: Prefixes of a question that are continued at a time, and most answers.
        ends: Tokens that end an answer.
        longest: Tokens of the longest answer, its end included; one that has no end by then counts as it is.
        barred: Tokens that no answer has.

    Returns:
        Answers of each question, at most ``width``, by their mean log-likelihood, likeliest first; no two have the
        same tokens.

    Raises:
        AuditError: A log-probability is not a number.
    """
    beams = [_Beam() for _ in range(len(first))]
    scores, rows = first, [[at] for at in range(len(first))]
    for step in range(1, longest + 1):
        logs = scores.detach().to("cpu", torch.float64, copy=True)
        require_finite_losses(not bool(logs.isnan().any()))
        logs[:, list(barred)] = -torch.inf
        parents: list[list[int]] = []
        for beam, own in zip(beams, rows, strict=True):
            parents.append([own[at] for at in _extend(beam, logs[own], width, ends, last=step == longest)])
        if not any(beam.live for beam in beams):
            break
        pairs = [
            (row, prefix[-1])
            for beam, own in zip(beams, parents, strict=True)
            for row, (_, prefix) in zip(own, beam.live, strict=True)
        ]
        sizes = torch.tensor([0, *(len(beam.live) for beam in beams)]).cumsum(dim=0).tolist()
        rows = [list(range(start, stop)) for start, stop in pairwise(sizes)]
        scores = advance(*(torch.tensor(column) for column in zip(*pairs, strict=True)))
    return [beam.done for beam in beams]


def _extend(beam: _Beam, logs: Tensor, width: int, ends: Collection[int], *, last: bool) -> list[int]:
    """Finish and continue the prefixes of a question by a token; gives the old place of each new prefix.

    Args:
        logs: Log-probabilities of the next token, float64 (prefixes, vocabulary).
        last: Whether there is no room for another token.
    """
    if not beam.live:
        return []
    totals = torch.tensor([log for log, _ in beam.live], dtype=torch.float64)[:, None] + logs
    length = len(beam.live[0][1]) + 1
    ended = totals[:, list(ends)].logsumexp(dim=1).tolist()
    beam.finish(
        [
            Answer(prefix, total / length)
            for (_, prefix), total in zip(beam.live, ended, strict=True)
            if total > -torch.inf
        ],
        width,
    )
    totals[:, list(ends)] = -torch.inf
    best, places = totals.flatten().topk(min(width, totals.numel()))
    kept = [(log, *divmod(place, totals.shape[1])) for log, place in zip(best.tolist(), places.tolist(), strict=True)]
    kept = [one for one in kept if one[0] > -torch.inf]
    beam.live = [(log, (*beam.live[at][1], token)) for log, at, token in kept]
    if last:
        beam.finish([Answer(prefix, log / length) for log, prefix in beam.live], width)
    if last or beam.ended(width):
        beam.live = []
    return [at for _, at, _ in kept] if beam.live else []


@dataclass
class Rows:
    """What a decoder keeps of the prefixes that it is continuing, a row each.

    Attributes:
        cache: Keys and values; its cross-attention is that of each row's page.
        pages: Tensors of the encoder, a row each.
        owners: Question of each row, int64 (rows,).
    """

    cache: EncoderDecoderCache
    pages: tuple[Tensor, ...]
    owners: Tensor

    def select(self, rows: Tensor) -> None:
        """Keep these rows, int64 (rows,), in this order; what depends on the page alone moves only where it must."""
        self.cache.self_attention_cache.batch_select_indices(rows)
        owners = self.owners[rows]
        if not torch.equal(owners, self.owners):
            self.cache.cross_attention_cache.batch_select_indices(rows)
            self.pages = tuple(part[rows] for part in self.pages)
            self.owners = owners
