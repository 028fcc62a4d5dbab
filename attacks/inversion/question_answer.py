"""Question and answer of every observation, by the closed form for text decoders."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from pfl_audit.attacks.inversion.analytic.limits import Limit
from pfl_audit.attacks.inversion.calls import Read, read_each
from pfl_audit.attacks.inversion.context import Case, GradientContext, texts_of
from pfl_audit.attacks.inversion.controls import TOKENS, Counts, counts_in_place, noise_like
from pfl_audit.attacks.inversion.donut_text.recovery import TextRecovery, recover_text
from pfl_audit.attacks.inversion.fit import decoder_misfit, misfit_limits
from pfl_audit.errors import NotAuditableError
from pfl_audit.models.gradient_protocol import GradientModel
from pfl_audit.models.samples import Text
from pfl_audit.models.text_decoder import TextDecoder
from pfl_audit.progress import Task


@dataclass(frozen=True)
class Asked:
    """Recovered question and answer of one observation. Holds personal data.

    Attributes:
        tokens: Number of tokens that the decoder read.
        right: Number of them recovered at their positions.
        sure: Number of them that the recovery calls sure.
        how: Which tensors it was recovered from.
        limits: Why something is missing.
        misfit: ``fit.misfit`` of the update, or None where too little came back.
        quiet: The counts of noise of the update's size, against the own page alone.
        counts: Measure to the answer's tokens that came back, against the client's own answer and against those of
            other fillings of the form.
    """

    name: str
    question: str
    answer: str
    tokens: int
    right: int
    sure: int
    how: str
    limits: tuple[Limit, ...]
    misfit: float | None
    quiet: Mapping[str, Counts]
    counts: Mapping[str, Counts]

    @property
    def exact(self) -> bool:
        """Whether every token of prompt and answer is right."""
        return self.right == self.tokens


def attack(context: GradientContext) -> list[Asked]:
    """Recover the text of every observation, and compare with the truth.

    Raises:
        NotAuditableError: The model has no text decoder, there is no truth to compare with, or gradients of batches.
    """
    decoder_of(context.model)
    found = read_each(context, "question and answer", "text", _read)
    return [read.compared for read in found.values() if read.compared is not None]


def decoder_of(model: GradientModel) -> TextDecoder:
    """The model's decoder of question and answer.

    Raises:
        NotAuditableError: It has none.
    """
    decoder = model.text_decoder()
    if decoder is None:
        among = model.word_encoder() is not None
        raise NotAuditableError(
            "this model has no decoder that reads question and answer as one sequence of tokens",
            "Use --method analytic, which recovers them among the words" if among else "",
        )
    return decoder


def _read(model: GradientModel, case: Case, task: Task, *, rng: np.random.Generator) -> Read[Asked]:
    decoder = decoder_of(model)
    layer = decoder.first_layer()
    read = recover_text(case.seen.gradient, layer, case.seen.weights)
    ids = read.ids.tolist()
    end = decoder.answer_at(ids) or len(ids)
    question, answer = decoder.decode(ids[:end]), decoder.decode(ids[end:])
    apart = decoder_misfit(decoder, case.seen, read)
    limits = (*read.limits, *misfit_limits(apart))
    if not case.truths:
        kept = {"question": question, "answer": answer, "tokens": ids, "sure": read.sure.tolist()}
        return Read(None, {**kept, "limits": [limit.words for limit in limits]})
    quiet = noise_like(case.seen.gradient, rng)
    truth = decoder.ids(case.truths[0].text).tolist()
    right = sum(one == other for one, other in zip(ids, truth, strict=False))
    right -= max(0, len(ids) - len(truth))  # a token too many is wrong as well
    compared = Asked(
        case.seen.name,
        question,
        answer,
        len(truth),
        max(0, right),
        int(read.sure.sum()),
        str(read.how),
        limits,
        apart,
        counts_of(decoder, Case(case.seen, case.truths), recover_text(quiet, layer)),
        counts_of(decoder, case, read),
    )
    return Read(compared, {})


def counts_of(decoder: TextDecoder, case: Case, got: TextRecovery) -> dict[str, Counts]:
    """The answer's tokens in place and in any order, against the own page and against other fillings of its form."""

    def read(text: Text) -> tuple[tuple[Tensor], Tensor]:
        ids, private = answer_of(decoder, text)
        return (ids,), private

    pages = [[read(text) for text in texts] for texts in texts_of(case)]
    return counts_in_place(pages, {TOKENS: got.ids}, got.present)


def answer_of(decoder: TextDecoder, text: Text) -> tuple[Tensor, Tensor]:
    """Tokens of a sample, int64 (n,), and which of them are the answer's, bool (n,)."""
    ids = decoder.ids(text)
    start = decoder.answer_at(ids.tolist()) or len(ids)
    places = torch.arange(len(ids)) >= start
    return ids, places & ~torch.isin(ids, torch.tensor(sorted(decoder.markers)))
