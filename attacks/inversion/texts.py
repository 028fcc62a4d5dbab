"""What the observer takes to have gone into the network beside the pixels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from pfl_audit.attacks.inversion.case import Case
from pfl_audit.attacks.inversion.donut_text.example import example_of
from pfl_audit.attacks.inversion.donut_text.recovery import recover_text
from pfl_audit.attacks.inversion.kinds import Known
from pfl_audit.attacks.inversion.layoutlm_text import MIXED, TELL, sees, solve, text_of
from pfl_audit.errors import NotAuditableError
from pfl_audit.models.donut.inputs import IGNORED
from pfl_audit.models.donut.tokenizer import EOS, MARKS, DonutTokenizer
from pfl_audit.models.gradient_protocol import GradientModel, Text


@dataclass(frozen=True, eq=False)
class Given:
    """What a search begins with.

    Attributes:
        texts: What went in beside the pixels, one a sample.
        page: Float (3, height, width), what a closed form made of the pixels; None where there is none.
    """

    texts: Sequence[Text]
    page: Tensor | None = None


def given_for(
    model: GradientModel, case: Case, known: Known, rng: np.random.Generator, *, recovers: bool = True
) -> Given:
    """One text a sample of the batch, and for a LayoutLM what the closed form says of the page.

    Args:
        model: Whose gradient was shared.
        case: The observation. Its truth is looked at only where the observer is given it, for comparison: every
            ``known`` but ``recovered``.
        known: What the observer has.
        rng: Of random tokens.
        recovers: Whether the method reads question and answer first; else they are random tokens, as many.

    Raises:
        NotAuditableError: They cannot be read from this gradient, or they are not given.
    """
    if not sees(model):
        raise NotAuditableError(
            "this model looks at no page: there are no pixels to search for", "Use --method analytic"
        )
    if known == "recovered" and recovers:
        return _recover(model, case)
    if not case.truths:
        raise NotAuditableError("question and answer of this gradient are unknown", "Leave --known out")
    if known in ("both", "recovered") and recovers:
        return Given([truth.text for truth in case.truths])
    tokenizer = _tokenizer(model)
    told: Known = "none" if not recovers else known
    return Given([_replaced(truth.text, tokenizer, told, rng) for truth in case.truths])


def _recover(model: GradientModel, case: Case) -> Given:
    if case.seen.batch > 1:
        raise NotAuditableError(MIXED, TELL)
    if model.family != "donut":
        got = solve(model, case.seen)
        return Given([text_of(model, case.seen, got)], got.pixels)
    found = recover_text(case.seen.gradient, model.network)
    if found.mixed or not len(found.ids):
        raise NotAuditableError(MIXED if found.mixed else "nothing of question and answer came back", TELL)
    example = example_of(found.ids.tolist(), _tokenizer(model))
    return Given([{"decoder_input_ids": torch.tensor(example.ids), "labels": torch.tensor(example.labels)}])


def _tokenizer(model: GradientModel) -> DonutTokenizer:
    inputs = getattr(model, "inputs", None)
    tokenizer = getattr(inputs, "tokenizer", None)
    if not isinstance(tokenizer, DonutTokenizer):
        raise NotAuditableError(
            f"a {model.family} has no question and answer in a row of tokens", "Give them with --known both"
        )
    return tokenizer


def _replaced(text: Text, tokenizer: DonutTokenizer, known: Known, rng: np.random.Generator) -> Text:
    """Question, answer or both as random pieces in the same places; the marks around them are every client's.

    ``characters`` replaces both, by single characters (GI-DQA, Table 3, last row); ``none`` by any pieces.
    """
    ids, labels = text["decoder_input_ids"].clone(), text["labels"].clone()
    marks = {tokenizer.id(name) for name in (*MARKS, EOS)}
    pieces = _pieces(tokenizer, single=known == "characters")
    answer_from = int((labels != IGNORED).nonzero()[0]) + 1
    for place, token in enumerate(ids.tolist()):
        asked = place < answer_from
        if token in marks or (known == "question" and asked) or (known == "answer" and not asked):
            continue
        ids[place] = int(rng.choice(pieces))
        if place and int(labels[place - 1]) != IGNORED:
            labels[place - 1] = ids[place]
    return {"decoder_input_ids": ids, "labels": labels}


def _pieces(tokenizer: DonutTokenizer, *, single: bool) -> Sequence[int]:
    texts = {token: tokenizer.decode([token]).strip() for token in range(tokenizer.size)}
    return [token for token, text in texts.items() if text and (len(text) == 1 or not single)]
