"""Combined odds of the tokens at a position, from the span of the gradient and from the orthogonality test."""

from __future__ import annotations

from dataclasses import dataclass
from math import log

import torch
from torch import Tensor

from pfl_audit.attacks.inversion.analytic.assignment import SURE
from pfl_audit.attacks.inversion.analytic.noise import Noise
from pfl_audit.attacks.inversion.donut_text.span import Span, normal_odds
from pfl_audit.models.text_decoder import FirstLayer

_ROUNDED = 4.0


def orthogonality_odds(tokens: Tensor, places: Tensor, signals: Tensor, decoder: FirstLayer, noise: Noise) -> Tensor:
    """Log-odds that the signal of a position belongs to a token, against a random one.

    Args:
        tokens: int64 (tokens,).
        places: int64 (places,).
        signals: float64 (places, width), of one sample.
        decoder: First layer of the decoder, for e(v, p) and for epsilon, which perturbs the orthogonality.

    Returns:
        float64 (places, tokens).
    """
    width, epsilon = decoder.width, decoder.behind[2]
    words, where = _centred(decoder.word_part(tokens)), _centred(decoder.position_part(places))
    sizes = words.square().sum(dim=1) + 2 * where @ words.T + where.square().sum(dim=1)[:, None]
    strength = signals.square().sum(dim=1).clamp_min(1e-300)[:, None]
    along = signals @ words.T + (signals * where).sum(dim=1)[:, None]
    bend = epsilon / (sizes / width + epsilon)
    expected = width * (noise.sigma**2 / strength + (_ROUNDED * noise.rounding) ** 2) + bend**2
    return normal_odds(width * along.square() / (strength * sizes.clamp_min(1e-300)), expected, 1)


def _centred(sums: Tensor) -> Tensor:
    return sums - sums.mean(dim=-1, keepdim=True)


_CHUNK = 4096
_SKEW = -16.0
"""Log-odds of the orthogonality test below which a token is ruled out: about 6 standard deviations."""
_ELSEWHERE = 16
"""Number of positions after the text at which a token is tested."""
_CHANGES = 1.5
"""Times the odds in those places, up to which the odds in another one may rise by chance."""


@dataclass(frozen=True)
class TokenDecision:
    """Decision on the token at a position.

    Attributes:
        likely: Tokens that are as good as sure to stand there, in the order of the choice.
        best: The token that fits best, -1 without a choice.
        lead: Log of its odds against the next.
    """

    likely: tuple[int, ...] = ()
    best: int = -1
    lead: float = 0.0


@dataclass(frozen=True)
class TokenEvidence:
    """Combines the tests of tokens.

    Attributes:
        decoder: First layer of the network.
        span: Span of the first attention's gradient; None where there is none, or where it carries no information.
        choice: int64 (tokens,), all that may stand anywhere.
        behind: The first place behind the text.
    """

    decoder: FirstLayer
    span: Span | None
    choice: Tensor
    behind: int

    def weigh(self, place: int, orthogonal: Tensor | None = None) -> TokenDecision:
        """Evaluate all candidate tokens at a position.

        Args:
            place: Index of the position, from 0.
            orthogonal: float64 (tokens,), log-odds of the orthogonality test; only known at a position that holds the
                signal of one sample.
        """
        if not len(self.choice):
            return TokenDecision()
        strict, generous = self._odds(place, orthogonal)
        least = SURE + log(len(self.choice))
        near = strict > least
        likely = self.choice[near][strict[near] > least + self._elsewhere(self.choice[near])]
        odds, order = generous.sort(descending=True)
        lead = float(odds[0] - odds[1]) if len(odds) > 1 else float(odds[0])
        return TokenDecision(tuple(likely.tolist()), int(self.choice[order[0]]), lead)

    def _odds(self, place: int, orthogonal: Tensor | None) -> tuple[Tensor, Tensor]:
        """Log-odds of every token, strict and generous as in Span.odds; minus infinity if it is ruled out."""
        known = torch.zeros(len(self.choice), dtype=torch.float64) if orthogonal is None else orthogonal
        odds = torch.where(known < _SKEW, -torch.inf, known).repeat(2, 1)
        if self.span is not None:
            left = (known >= _SKEW).nonzero()[:, 0]  # orthogonality rules out most of a large vocabulary
            for rows in torch.split(left, _CHUNK):
                odds[:, rows] += torch.stack(self.span.odds(self._states(self.choice[rows], place)))
        return odds[0], odds[1]

    def _elsewhere(self, tokens: Tensor) -> Tensor:
        """What odds need above those in places that the text has not: under noise a token of it shines through."""
        if self.span is None or not len(tokens):
            return torch.zeros(len(tokens), dtype=torch.float64)
        last = min(self.behind + _ELSEWHERE, self.decoder.places)
        places = [*range(-self.decoder.offset, 0), *range(self.behind, last)]
        odds = torch.stack([self.span.odds(self._states(tokens, place))[0] for place in places])
        return _CHANGES * odds.amax(dim=0).clamp_min(0)

    def _states(self, tokens: Tensor, place: int) -> Tensor:
        sums = self.decoder.word_part(tokens) + self.decoder.position_part(torch.tensor([place]))
        return self.decoder.attention_input(sums)
