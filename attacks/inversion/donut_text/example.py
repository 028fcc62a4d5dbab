"""From recovered tokens to what the network takes, and to words."""

from __future__ import annotations

from collections.abc import Sequence

from pfl_audit.models.donut.inputs import IGNORED, Example
from pfl_audit.models.donut.tokenizer import ANSWER, EOS, UNK, DonutTokenizer


def example_of(ids: Sequence[int], tokenizer: DonutTokenizer) -> Example:
    """A client's example, with the labels that follow from what the decoder read.

    Args:
        ids: As recovered; an unknown one (-1) becomes the unknown piece, which is as good for the pixels: the places
            count, not the words.
        tokenizer: Of the model.

    Returns:
        All after ``<s_answer>`` is scored, ``</s>`` last; everything, where no such mark came back.
    """
    known = tuple(token if token >= 0 else tokenizer.id(UNK) for token in ids)
    labels = (*known[1:], tokenizer.id(EOS)) if known else ()
    asked = _answer_at(known, tokenizer)
    return Example(known, (*[IGNORED] * asked, *labels[asked:]))


def words_of(ids: Sequence[int], tokenizer: DonutTokenizer) -> tuple[str, str]:
    """Question and answer as text, unknown tokens left out; all is question where no ``<s_answer>`` came back."""
    if tokenizer.id(ANSWER) not in ids:
        return tokenizer.decode(ids), ""
    at = _answer_at(ids, tokenizer)
    return tokenizer.decode(ids[:at]), tokenizer.decode(ids[at:])


def _answer_at(ids: Sequence[int], tokenizer: DonutTokenizer) -> int:
    """Place of ``<s_answer>``, 0 where there is none."""
    mark = tokenizer.id(ANSWER)
    return list(ids).index(mark) if mark in ids else 0
