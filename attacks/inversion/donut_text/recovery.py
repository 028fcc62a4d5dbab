"""Text recovered from a gradient: by the embedding's rows, and where these leave it open by span and orthogonality.

Needed are the network's first weights and one gradient: nothing of the page, of the question or of the form that a
client's questions have. Anything proportional to the gradient is as good.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum, auto

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pfl_audit.attacks.inversion.adapters.decoder import decoder_tokens
from pfl_audit.attacks.inversion.adapters.positioned import PlacedTokens
from pfl_audit.attacks.inversion.analytic.assignment import LIKELY
from pfl_audit.attacks.inversion.analytic.limits import Cause, Limit, missing, reading_limits, restated
from pfl_audit.attacks.inversion.analytic.signals import signals_of
from pfl_audit.attacks.inversion.analytic.signs import only_signs, tokens_from_signs
from pfl_audit.attacks.inversion.analytic.tokens import Reading, read_tokens
from pfl_audit.attacks.inversion.donut_text.span import span_of
from pfl_audit.attacks.inversion.donut_text.tensors import (
    Tensors,
    find_noise,
    least_noise,
    read_tensors,
    shared_tensors,
)
from pfl_audit.attacks.inversion.donut_text.token_evidence import TokenEvidence, orthogonality_odds
from pfl_audit.attacks.inversion.update.traits import traits_of
from pfl_audit.models.text_decoder import FirstLayer

_MIXED = 3.0
"""Times what noise explains, from which on rows are not made of the positions' signals."""
_CHUNK = 8192


class How(StrEnum):
    """What the tokens were recovered from."""

    ROWS = auto()
    SPAN = auto()
    ADAPTERS = auto()


@dataclass(frozen=True)
class TextRecovery:
    """Recovered prompt and answer.

    Attributes:
        ids: int64 (n,), what the decoder read, -1 where unknown.
        sure: bool (n,), tokens that no other comes near; the rest is the likeliest reading.
        how: ROWS where the embedding's rows gave every token, SPAN where span or orthogonality were needed,
            ADAPTERS where the rows of low-rank adapters gave them.
        present: int64, tokens that stand anywhere, in rising order, as far as it is known.
        mixed: Whether the gradient is of more than one sample, or of more than one step.
        limits: What was not recovered, with the cause.
    """

    ids: Tensor
    sure: Tensor
    how: How
    present: Tensor
    mixed: bool = False
    limits: tuple[Limit, ...] = ()


def recover_text(
    gradient: Mapping[str, Tensor], decoder: FirstLayer, weights: Mapping[str, Tensor] | None = None
) -> TextRecovery:
    """Recover the tokens that a decoder read from its gradient.

    Args:
        gradient: Gradient of the training loss by parameter name, up to a factor.
        decoder: First weights of the network that the client was sent.
        weights: What the update was added to, by parameter, with adapters, where that is not the model as it is.

    Raises:
        AuditError: Misshapen tensors or NaN; none of the tensors at all.
    """
    adapted, names = decoder_tokens(gradient, decoder, weights), decoder.parameters
    found = None if adapted is None else _of_adapters(adapted)
    if found is None or shared_tensors(gradient, decoder).some:
        work = _Reader(decoder, read_tensors(gradient, decoder))
        work.read()
        found = _surer(work.found(), found)
    traits = traits_of(gradient, (names.word, names.position, names.output))
    return replace(found, limits=restated(found.limits, traits))


def _of_adapters(found: PlacedTokens) -> TextRecovery:
    ids = torch.from_numpy(found.ids)
    return TextRecovery(ids, ids >= 0, How.ADAPTERS, torch.from_numpy(found.present), limits=found.limits)


def _surer(one: TextRecovery, other: TextRecovery | None) -> TextRecovery:
    """That with more tokens that are sure."""
    return one if other is None or int(one.sure.sum()) >= int(other.sure.sum()) else other


class _Reader:
    """State of the recovery of a text."""

    def __init__(self, decoder: FirstLayer, tensors: Tensors) -> None:
        self.decoder, self.tensors = decoder, tensors
        self.noise = find_noise(tensors, decoder)
        self.signals = torch.zeros(0, decoder.width, dtype=torch.float64)
        self.present: NDArray[np.int64] = np.zeros(0, dtype=np.int64)
        self.how, self.mixed = How.ROWS, False
        self.limits: list[Limit] = []
        self._size(0)

    def _size(self, count: int) -> None:
        self.ids, self.sure = np.full(count, -1), np.zeros(count, dtype=bool)
        self.candidates: list[tuple[int, ...]] = [()] * count

    def read(self) -> None:
        """Everything, the surest way first."""
        word, position = self.tensors.word, self.tensors.position
        if position is not None and only_signs(position):
            self._signs(position)
            return
        spread, complete = 1.0, False
        if position is not None:
            signals = signals_of(position, self.decoder.offset, self.noise)
            self._size(len(signals))
            self.signals = torch.from_numpy(signals)
            if word is not None and len(signals):
                read, spread = read_tokens(word, signals, self.noise, tied=self.decoder.tied, scale=self.decoder.scale)
                self._take(read)
                complete = read.complete
        elif word is not None and not self.decoder.tied and not self.noise.everywhere:
            self.present = word.any(dim=1).nonzero()[:, 0].numpy()
        if not (complete and self.sure.all() and len(self.ids)):
            self.mixed = not complete and spread > _MIXED
            self._help()
        self._limits()

    def _signs(self, position: Tensor) -> None:
        self.noise = replace(self.noise, sigma=0.0, everywhere=False)
        by_signs = self.tensors.word is not None and not self.decoder.tied
        self.limits.append(_signs("the likeliest by their signs" if by_signs else "unknown"))
        if self.tensors.word is not None and by_signs:
            read = tokens_from_signs(self.tensors.word, position, self.decoder.offset)
            self._size(len(read.values))
            self._take(read)

    @property
    def _listed(self) -> bool:
        """Whether all tokens of the text are known to be among those present."""
        return self.tensors.word is not None and not self.decoder.tied and len(self.present) > 0

    def _take(self, read: Reading) -> None:
        self.ids, self.sure, self.present = read.values[:, 0].copy(), read.sure.copy(), read.present
        self.candidates = [(int(each),) if each >= 0 else () for each in self.ids]

    def _help(self) -> None:
        """Use span and orthogonality where the rows leave tokens open."""
        position, attention = self.tensors.position, self.tensors.attention
        count, span = len(self.ids), None
        if attention is not None:
            few = 0 < count < self.decoder.width
            span = span_of(attention, self.noise, least_noise(attention) if few else 0.0)
            self.mixed |= position is not None and span.rank > count
            span = span if span.informative else None
        choice = torch.from_numpy(self.present) if self._listed else torch.arange(len(self.decoder.embedding))
        evidence = TokenEvidence(
            self.decoder, span, choice, behind=count if position is not None else self.decoder.places
        )
        if self.mixed:
            self._batch(evidence)
        elif position is not None:
            self._places(evidence)
        elif span is not None:
            self._walk(evidence, span.rank)

    def _places(self, evidence: TokenEvidence) -> None:
        """The places that the rows leave open, one token in each."""
        places = torch.from_numpy(np.flatnonzero(~self.sure))
        tests = [
            orthogonality_odds(tokens, places, self.signals[places], self.decoder, self.noise)
            for tokens in torch.split(evidence.choice, _CHUNK)
        ]
        for place, orthogonal in zip(places.tolist(), torch.cat(tests, dim=1), strict=True):
            found = evidence.weigh(place, orthogonal)
            agreed = self.decoder.tied and found.best == self.ids[place]  # two ways to the same of all tokens
            self._settle(place, found.likely)
            self.sure[place] |= agreed
            if self.ids[place] < 0 and found.lead > LIKELY:
                self.ids[place] = found.best

    def _walk(self, evidence: TokenEvidence, states: int) -> None:
        """Place after place, as long as the span holds more states than were found."""
        self._size(self.decoder.places)
        for place in range(self.decoder.places):
            self._settle(place, evidence.weigh(place).likely)
            states -= len(self.candidates[place])
            if states <= 0:
                break
        count = max((place + 1 for place, each in enumerate(self.candidates) if each), default=0)
        self.ids, self.sure, self.candidates = self.ids[:count], self.sure[:count], self.candidates[:count]
        self.mixed = any(len(each) > 1 for each in self.candidates)

    def _settle(self, place: int, likely: tuple[int, ...]) -> None:
        """One likely token is the one; several are candidates."""
        self.how = How.SPAN
        if likely:
            self.candidates[place], self.sure[place] = likely, len(likely) == 1
        if len(likely) == 1:
            self.ids[place] = likely[0]

    def _batch(self, evidence: TokenEvidence) -> None:
        """The tokens of every place, whichever sample they are of."""
        self._size(len(self.ids))
        if evidence.span is not None:
            for place in range(len(self.ids)):
                self._settle(place, evidence.weigh(place).likely)

    def _limits(self) -> None:
        word, position, attention = self.tensors.word, self.tensors.position, self.tensors.attention
        count, unsure = len(self.ids), int((~self.sure).sum())
        if self.mixed:
            held = f"{count - unsure} of {count} places hold one token for certain"
            why = f"tokens: more than one sample in the batch, or more than one step: {held}"
            self.limits.append(Limit(Cause.MIXED, f"{why}, and which sample each belongs to is unknown"))
        elif count and unsure:
            self.limits += reading_limits("tokens", unsure, count, self.decoder.width, 1.0, self.noise, complete=False)
        elif not count and position is not None:
            self.limits.append(Limit(Cause.NOISE, f"noise of {self.noise.sigma:.0e} an entry hides all positions"))
        if unsure or not count:
            for tensor, what, lost in (
                (word, "the token embeddings", "no rows tell the tokens"),
                (position, "the positions", "no signals show which token is where"),
                (attention, "the first self-attention", "no span shows which tokens fit"),
            ):
                if tensor is None:
                    self.limits.append(missing(what, lost))

    def found(self) -> TextRecovery:
        """The whole."""
        present = self.present
        if not (self._listed or self.mixed) or not len(present):
            present = np.array(sorted({token for each in self.candidates for token in each} | {*self.ids} - {-1}), int)
        return TextRecovery(
            ids=torch.from_numpy(self.ids),
            sure=torch.from_numpy(self.sure),
            how=self.how,
            present=torch.from_numpy(present),
            mixed=self.mixed,
            limits=tuple(self.limits),
        )


def _signs(tokens: str) -> Limit:
    return Limit(Cause.SIGNS, f"all values are of one size, as after a step of Adam: the tokens are {tokens}")
