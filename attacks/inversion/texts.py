"""Inputs of the network besides the pixels, as the observer recovers or assumes them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from torch import Tensor

from pfl_audit.attacks.inversion.context import Case
from pfl_audit.attacks.inversion.donut_text.recovery import recover_text
from pfl_audit.attacks.inversion.settings import Known
from pfl_audit.attacks.inversion.word_text import MIXED, TELL, solve, text_of
from pfl_audit.errors import NotAuditableError
from pfl_audit.models.gradient_protocol import GradientModel
from pfl_audit.models.samples import Text
from pfl_audit.models.text_decoder import TextDecoder


@dataclass(frozen=True, eq=False)
class Given:
    """Initial knowledge of a search.

    Attributes:
        texts: Inputs besides the pixels, one per sample.
        page: Float (3, height, width), pixels recovered in closed form, or None.
    """

    texts: Sequence[Text]
    page: Tensor | None = None


def given_for(
    model: GradientModel, case: Case, known: Known, rng: np.random.Generator, *, recovers: bool = True
) -> Given:
    """One text per sample of the batch, and the page as far as the closed form for encoders of words recovers it.

    Args:
        case: The observation. Its truth is looked at only where the observer is given it, for comparison: every
            ``known`` but ``recovered``.
        known: What the observer knows of question and answer.
        recovers: Whether the method reads question and answer first; else they are random tokens, as many.

    Raises:
        NotAuditableError: They cannot be read from this gradient, or they are not given.
    """
    if not model.sees_page:
        remedy = "Use --method analytic" if model.word_encoder() is not None else ""
        raise NotAuditableError("this model looks at no page: there are no pixels to search for", remedy)
    if known == "recovered" and recovers:
        return _recover(model, case)
    if not case.truths:
        raise NotAuditableError("question and answer of this gradient are unknown", "Leave --known out")
    if known in ("both", "recovered") and recovers:
        return Given([truth.text for truth in case.truths])
    decoder = model.text_decoder()
    if decoder is None:
        remedy = "Give them with --known both" if recovers else "Use --method idlg, which reads them first"
        raise NotAuditableError("this model has no question and answer in one sequence of tokens", remedy)
    replaced: Known = "none" if not recovers else known
    return Given([_replaced(truth.text, decoder, replaced, rng) for truth in case.truths])


def _recover(model: GradientModel, case: Case) -> Given:
    if case.seen.batch > 1:
        raise NotAuditableError(MIXED, TELL)
    decoder = model.text_decoder()
    if decoder is not None:
        found = recover_text(case.seen.gradient, decoder.first_layer())
        if found.mixed or not len(found.ids):
            raise NotAuditableError(MIXED if found.mixed else "nothing of question and answer came back", TELL)
        return Given([decoder.text(found.ids.tolist())])
    if model.word_encoder() is None:
        raise NotAuditableError(
            "question and answer of this model cannot be recovered from a gradient: it has neither a text decoder nor "
            "an encoder of words",
            TELL,
        )
    got = solve(model, case.seen)
    return Given([text_of(model, case.seen, got)], got.pixels)


def _replaced(text: Text, decoder: TextDecoder, known: Known, rng: np.random.Generator) -> Text:
    """Question, answer or both as random tokens in the same places; the markers around them stay.

    ``characters`` replaces both, by single characters (GI-DQA, Table 3, last row); ``none`` by any tokens.
    """
    ids = decoder.ids(text).tolist()
    tokens = _tokens(decoder, single=known == "characters")
    answer_at = decoder.answer_at(ids) or 0
    for place, token in enumerate(ids):
        asked = place < answer_at
        if token in decoder.markers or (known == "question" and asked) or (known == "answer" and not asked):
            continue
        ids[place] = int(rng.choice(tokens))
    return decoder.text(ids)


def _tokens(decoder: TextDecoder, *, single: bool) -> Sequence[int]:
    """Tokens that stand for text, or for a single character."""
    texts = {token: decoder.decode([token]).strip() for token in range(decoder.vocabulary)}
    return [token for token, text in texts.items() if text and (len(text) == 1 or not single)]
