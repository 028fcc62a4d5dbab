"""Question and answer of every observation, by the closed form for text decoders."""

from __future__ import annotations

from dataclasses import dataclass

from pfl_audit.attacks.inversion.context import GradientContext, keep_text, unscored
from pfl_audit.attacks.inversion.donut_text.recovery import recover_text
from pfl_audit.errors import NotAuditableError


@dataclass(frozen=True)
class Asked:
    """Recovered question and answer of one observation. Holds personal data.

    Attributes:
        tokens: Number of tokens that the decoder read.
        right: Number of them recovered at their positions.
        sure: Number of them that the recovery calls sure.
        how: Which tensors it was recovered from.
        limits: Why something is missing.
    """

    name: str
    question: str
    answer: str
    tokens: int
    right: int
    sure: int
    how: str
    limits: tuple[str, ...]

    @property
    def exact(self) -> bool:
        """Whether every token of prompt and answer is right."""
        return self.right == self.tokens


def attack(context: GradientContext) -> list[Asked]:
    """Recover the text of every observation, and compare with the truth.

    Raises:
        NotAuditableError: The model has no text decoder, there is no truth to compare with, or gradients of batches.
    """
    decoder = context.model.text_decoder()
    if decoder is None:
        among = context.model.word_encoder() is not None
        raise NotAuditableError(
            "this model has no decoder that reads question and answer as one sequence of tokens",
            "Use --method analytic, which recovers them among the words" if among else "",
        )
    layer = decoder.first_layer()
    found = []
    for case in context.cases:
        read = recover_text(case.seen.gradient, layer)
        ids = read.ids.tolist()
        end = decoder.answer_at(ids) or len(ids)
        question, answer = decoder.decode(ids[:end]), decoder.decode(ids[end:])
        limits = tuple(limit.words for limit in read.limits)
        if not case.truths:
            kept = {"question": question, "answer": answer, "tokens": ids, "sure": read.sure.tolist(), "limits": limits}
            keep_text(context, "text", case, kept)
            continue
        truth = decoder.ids(case.truths[0].text).tolist()
        right = 0 if read.mixed else sum(one == other for one, other in zip(ids, truth, strict=False))
        right -= max(0, len(ids) - len(truth))  # a token too many is wrong as well
        found.append(
            Asked(
                case.seen.name, question, answer, len(truth), max(0, right), int(read.sure.sum()), str(read.how), limits
            )
        )
    if not found:
        raise unscored()
    return found
