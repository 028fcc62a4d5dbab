"""The text read out of a gradient: what the rows of the embedding tell, and where they do not, span and angle.

Needed are the network's first weights and one gradient: nothing of the page, of the question or of the form that a
client's questions have. Anything proportional to the gradient is as good.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum, auto
from math import log
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from pfl_audit.attacks.inversion.analytic.assignment import LIKELY, SURE
from pfl_audit.attacks.inversion.analytic.limits import Cause, Limit, missing, reading_limits
from pfl_audit.attacks.inversion.analytic.signals import signals_of
from pfl_audit.attacks.inversion.analytic.signs import only_signs, tokens_from_signs
from pfl_audit.attacks.inversion.analytic.tokens import Reading
from pfl_audit.attacks.inversion.donut_text.angle import angle_odds, pair
from pfl_audit.attacks.inversion.donut_text.decoder import Decoder, decoder_of
from pfl_audit.attacks.inversion.donut_text.rows import read_rows
from pfl_audit.attacks.inversion.donut_text.span import Span, span_of
from pfl_audit.attacks.inversion.donut_text.tensors import Tensors, find_noise, least_noise, read_tensors
from torch import Tensor

_MIXED = 3.0
"""Times what noise explains, from which on rows are not made of the positions' signals."""
_CHUNK = 4096
_ELSEWHERE = 16
"""Places behind the text that a token is tried in."""
_SKEW = -16.0
"""Log of the odds by the angle, below which a token is out: some 6 standard deviations."""
_CHANGES = 1.5
"""Times the odds in those places, up to which the odds in another one may rise by chance."""


class How(StrEnum):
    """What told the tokens."""

    ROWS = auto()
    SPAN = auto()


@dataclass(frozen=True)
class TextRecovery:
    """What came back of prompt and answer.

    Attributes:
        ids: int64 (n,), what the decoder read, -1 where unknown.
        sure: bool (n,), tokens that no other comes near; the rest is the likeliest reading.
        how: ROWS where the embedding's rows told every token, SPAN where span or angle had to help.
        candidates: For every place the tokens that may stand there, in rising order; of a batch, all that do.
        present: int64, tokens that stand anywhere, in rising order, as far as it is known.
        mixed: Whether the gradient is of more than one sample, or of more than one step.
        noise: Standard deviation of the noise that was found in every entry; 0 for rounding only.
        limits: What did not come back, and why.
    """

    ids: Tensor
    sure: Tensor
    how: How
    candidates: tuple[tuple[int, ...], ...]
    present: Tensor
    mixed: bool = False
    noise: float = 0.0
    limits: tuple[Limit, ...] = ()


def recover_text(gradient: Mapping[str, Tensor], network: Any) -> TextRecovery:
    """Read what a Donut's decoder read out of its gradient.

    Args:
        gradient: Of the training loss, by ``network.named_parameters()``, or anything proportional to it.
        network: The VisionEncoderDecoderModel that the client was sent.

    Raises:
        AuditError: No Donut; misshapen tensors or NaN; none of the tensors at all.
    """
    decoder = decoder_of(network)
    work = _Reader(decoder, read_tensors(gradient, decoder))
    work.read()
    return work.found()


class _Reader:
    """What is known of the text so far."""

    def __init__(self, decoder: Decoder, tensors: Tensors) -> None:
        self.decoder, self.tensors = decoder, tensors
        self.noise = find_noise(tensors, decoder)
        self.span: Span | None = None
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
        word, position, attention = self.tensors.word, self.tensors.position, self.tensors.attention
        if position is not None and only_signs(position):
            self._signs(position)
            return
        spread, complete = 1.0, False
        if position is not None:
            signals = signals_of(position, self.decoder.offset, self.noise)
            self._size(len(signals))
            self.signals = torch.from_numpy(signals)
            if word is not None and len(signals):
                read, spread = read_rows(word, signals, self.decoder.scale, self.noise, tied=self.decoder.tied)
                self._take(read)
                complete = read.complete
        elif word is not None and not self.decoder.tied and not self.noise.everywhere:
            self.present = word.any(dim=1).nonzero()[:, 0].numpy()
        if not (complete and self.sure.all() and len(self.ids)):
            if attention is not None:
                few = 0 < len(self.ids) < self.decoder.width
                self.span = span_of(attention, self.noise, least_noise(attention) if few else 0.0)
            states = 0 if self.span is None else self.span.rank
            self.mixed = position is not None and not complete and (spread > _MIXED or states > len(self.ids))
            self._help()
        self._limits(complete=complete)

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
        """Ask span and angle."""
        if self.mixed:
            self._batch()
        elif self.tensors.position is not None:
            for place in np.flatnonzero(~self.sure):
                self._place(int(place))
        elif self.span is not None and self.span.tells:
            self._places()

    def _choice(self) -> Tensor:
        """Tokens that may stand anywhere."""
        return torch.from_numpy(self.present) if self._listed else torch.arange(len(self.decoder.embedding))

    def _odds(self, choice: Tensor, place: int, *, alone: bool) -> tuple[Tensor, Tensor]:
        """Log of the odds of every token of a choice in a place, strict and generous as Span.odds has them.

        ``alone`` if the place's signal is that of one sample.
        """
        parts = []
        for tokens in choice.split(_CHUNK):
            sums = self.decoder.sums(tokens, place)
            odds = torch.zeros(2, len(tokens), dtype=torch.float64)
            if alone and place < len(self.signals):
                odds += angle_odds(sums, self.signals[place], self.decoder, self.noise)
                odds[odds < _SKEW] = -torch.inf  # spares most of a large vocabulary the longer way
            if self.span is not None and self.span.tells:
                left = odds[0] > -torch.inf
                odds[:, left] += torch.stack(self.span.odds(self.decoder.seen(sums[left])))
            parts.append(odds)
        strict, generous = torch.cat(parts, dim=1)
        return strict, generous

    def _place(self, place: int, *, alone: bool = True) -> None:
        """The token of one place, and all that come near."""
        choice = self._choice()
        if not len(choice):
            return
        self.how = How.SPAN
        strict, generous = self._odds(choice, place, alone=alone)
        near = strict > SURE + log(len(choice))
        likely = choice[near][strict[near] > SURE + log(len(choice)) + self._elsewhere(choice[near])]
        best, order = generous.sort(descending=True)
        agreed = self.decoder.tied and int(choice[order[0]]) == self.ids[place]
        if len(likely) == 1:
            self.ids[place] = int(likely[0])
        elif alone and self.ids[place] < 0 and (len(best) == 1 or best[0] - best[1] > LIKELY):
            self.ids[place] = int(choice[order[0]])
        self.sure[place] = agreed or len(likely) == 1
        self.candidates[place] = tuple(likely.tolist()) or self.candidates[place]

    def _elsewhere(self, tokens: Tensor) -> Tensor:
        """The odds of tokens in places that no text has, or this one has not: under noise a token shines through."""
        if self.span is None or not self.span.tells:
            return torch.zeros(len(tokens), dtype=torch.float64)
        places = [*range(-self.decoder.offset, 0), *range(self.decoder.places)[len(self.ids) :][:_ELSEWHERE]]
        odds = [self.span.odds(self.decoder.seen(self.decoder.sums(tokens, place)))[0] for place in places]
        return _CHANGES * torch.stack(odds).amax(dim=0).clamp_min(0)

    def _places(self) -> None:
        """Place after place, as long as the span holds more than was found."""
        self._size(self.decoder.places)
        count, states = 0, self.span.rank if self.span else 0
        for place in range(self.decoder.places):
            self._place(place, alone=False)
            states -= len(self.candidates[place])
            count = place + 1 if self.candidates[place] else count
            if states <= 0:
                break
        self.ids, self.sure, self.candidates = self.ids[:count], self.sure[:count], self.candidates[:count]
        self.mixed = any(len(each) > 1 for each in self.candidates)

    def _batch(self) -> None:
        """The tokens of every place, whichever sample they are of."""
        self._size(len(self.signals))
        if self.span is not None and self.span.tells:
            for place in range(len(self.ids)):
                self._place(place, alone=False)
        word = self.tensors.word
        if word is None or not self._listed or self.noise.everywhere:
            return
        choice = self._choice()
        shapes = torch.stack([self.decoder.sums(choice, place) for place in range(len(self.ids))])
        allowed = torch.ones(shapes.shape[:2], dtype=torch.bool)
        if self.span is not None and self.span.tells:
            allowed = torch.stack([torch.isin(choice, torch.tensor(each)) for each in self.candidates])
        found = pair(self.signals, word[choice].double() / self.decoder.scale, shapes, allowed, self.noise.rounding)
        self.candidates = [tuple(choice[held].tolist()) for held in found.held]
        if found.complete:
            self.sure = np.array([len(each) == 1 for each in self.candidates])
            self.ids = np.array([each[0] if len(each) == 1 else -1 for each in self.candidates])

    def _limits(self, *, complete: bool) -> None:
        word, position, attention = self.tensors.word, self.tensors.position, self.tensors.attention
        count, unsure = len(self.ids), int((~self.sure).sum())
        if self.mixed:
            self.limits.append(_mixed(self.candidates, count - unsure))
        elif count and unsure:
            self.limits += reading_limits("tokens", unsure, count, self.decoder.width, 1.0, self.noise, complete=False)
        elif not count and position is not None:
            self.limits.append(Limit(Cause.NOISE, f"noise of {self.noise.sigma:.0e} an entry hides all positions"))
        if unsure or not count:
            for tensor, what, lost in (
                (word, "the token embeddings", "no rows tell the tokens"),
                (position, "the positions", "no signals tell which token stands where"),
                (attention, "the first self-attention", "no span tells which tokens fit"),
            ):
                if tensor is None:
                    self.limits.append(missing(what, lost))

    def found(self) -> TextRecovery:
        """The whole."""
        known = sorted({token for each in self.candidates for token in each} | set(self.ids[self.ids >= 0].tolist()))
        return TextRecovery(
            ids=torch.from_numpy(self.ids),
            sure=torch.from_numpy(self.sure),
            how=self.how,
            candidates=tuple(self.candidates),
            present=torch.from_numpy(self.present) if len(self.present) else torch.tensor(known, dtype=torch.int64),
            mixed=self.mixed,
            noise=self.noise.sigma if self.noise.everywhere else 0.0,
            limits=tuple(self.limits),
        )


def _signs(tokens: str) -> Limit:
    return Limit(Cause.SIGNS, f"all values are of one size, as after a step of Adam: the tokens are {tokens}")


def _mixed(candidates: list[tuple[int, ...]], sure: int) -> Limit:
    most = max(map(len, candidates), default=0)
    return Limit(
        Cause.MIXED,
        f"tokens: more than one sample in the batch, or more than one step: {sure} of {len(candidates)} places hold "
        f"one token, the others up to {most}, and which sample each belongs to is unknown",
    )
