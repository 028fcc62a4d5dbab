"""Requests, tokens and cost: how many a question may take, and a ceiling that no request goes beyond."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from math import ceil
from typing import Final

from pfl_audit.errors import UsageError
from pfl_audit.models.endpoint.prompt import Prompt
from pfl_audit.models.endpoint.reply import Usage

_MILLION: Final = 1e6
_OVERHEAD: Final = 16
"""Tokens of a chat template, as a guess."""
_OVERHEAD_MOST: Final = 256
_LETTERS: Final = 3.5
"""Letters of a token of English text."""
_PIXELS: Final = 750
"""Pixels of a token of a picture: between the 784 of Qwen2-VL (28 x 28) and what vendors state."""
_PATCH: Final = 14 * 14
"""Pixels of the smallest patches in use, each a token at most."""
_PICTURE_MOST: Final = 3000
"""Tokens of a small picture that a processor enlarges."""
_SAFETY: Final = 1.25


@dataclass(frozen=True)
class Load:
    """Tokens of one question before it is asked.

    Attributes:
        expected: Tokens sent, by rules of thumb.
        most: Tokens sent at most.
        answer: Tokens answered at most.
    """

    expected: float
    most: int
    answer: int


def load_of(prompt: Prompt, answer: int) -> Load:
    """Tokens of a prompt, from the length of its text and the size of its picture.

    Args:
        answer: Tokens of the answer at most.

    Raises:
        UnanswerableError: The picture cannot be read.
    """
    size = prompt.size()
    pixels = size[0] * size[1] if size else 0
    most = len(prompt.text.encode(errors="replace")) + _OVERHEAD_MOST  # a token of bytes has one byte at least
    if size:
        most += max(_PICTURE_MOST, ceil(pixels / _PATCH))
    return Load(_OVERHEAD + len(prompt.text) / _LETTERS + pixels / _PIXELS, most, answer)


@dataclass(frozen=True)
class Prices:
    """Price of a million tokens, or None where the user gives none."""

    sent: float | None = None
    answered: float | None = None

    @property
    def known(self) -> bool:
        """Whether a cost can be computed."""
        return self.sent is not None or self.answered is not None

    def cost(self, sent: float, answered: float) -> float:
        """Cost of some tokens."""
        return ((self.sent or 0.0) * sent + (self.answered or 0.0) * answered) / _MILLION


@dataclass(frozen=True)
class Limits:
    """Requests, tokens and cost at most; None where there is no limit."""

    requests: int | None = None
    tokens: int | None = None
    cost: float | None = None

    def words(self) -> str:
        """The limits for people."""
        counts = [
            f"{value:,} {name}" for name, value in (("requests", self.requests), ("tokens", self.tokens)) if value
        ]
        return ", ".join([*counts, *([] if self.cost is None else [f"cost {self.cost:,.2f}"])])


@dataclass(frozen=True)
class Held:
    """Tokens that a request in flight may take.

    Attributes:
        sent: Tokens sent at most.
        answered: Tokens answered at most.
        load: Tokens of its question before it was asked.
    """

    sent: int
    answered: int
    load: Load


class Budget:
    """Counts requests and tokens of a run, and refuses those that might go beyond the ceiling.

    Safe for several threads. A request is counted with the most that it can take until its usage is known.

    Attributes:
        ceiling: What is used at most; no request until it is set.
        requests: Requests so far, attempts included.
        sent: Tokens sent so far.
        answered: Tokens answered so far.
    """

    def __init__(self, prices: Prices, ceiling: Limits = Limits(requests=0)) -> None:
        self.requests = self.sent = self.answered = 0
        self.ceiling, self._prices = ceiling, prices
        self._held_sent = self._held_answered = 0
        self._factors = (1.0, 1.0)
        self._changed = threading.Condition()

    def reserve(self, load: Load) -> Held:
        """Reserve a request, waiting for those in flight where only they are in the way.

        Returns:
            Tokens that are reserved, for ``settle``.

        Raises:
            UsageError: A limit is reached.
        """
        with self._changed:
            while True:
                held = Held(ceil(load.most * self._factors[0]), ceil(load.answer * self._factors[1]), load)
                limit = self._reached(held.sent, held.answered)
                if limit is None:
                    self.requests += 1
                    self._held_sent += held.sent
                    self._held_answered += held.answered
                    return held
                if not self._held_sent or limit == "requests":
                    raise UsageError(
                        f"the endpoint's limit of {limit} is reached after {self.requests:,} requests and "
                        f"{self.sent + self.answered:,} tokens; the answers are kept",
                        f"Repeat the command with a larger --endpoint-max-{limit}",
                    )
                self._changed.wait()

    def settle(self, held: Held, usage: Usage) -> None:
        """Replace a reservation by what was used."""
        with self._changed:
            self._held_sent -= held.sent
            self._held_answered -= held.answered
            self.sent += usage.sent
            self.answered += usage.answered
            self._factors = (
                _raised(self._factors[0], usage.sent, held.sent, held.load.most),
                _raised(self._factors[1], usage.answered, held.answered, held.load.answer),
            )
            self._changed.notify_all()

    def _reached(self, sent: int, answered: int) -> str | None:
        """Name of the limit that a further request might go beyond."""
        sent += self.sent + self._held_sent
        answered += self.answered + self._held_answered
        if self.ceiling.requests is not None and self.requests >= self.ceiling.requests:
            return "requests"
        if self.ceiling.tokens is not None and sent + answered > self.ceiling.tokens:
            return "tokens"
        if self.ceiling.cost is not None and self._prices.cost(sent, answered) > self.ceiling.cost:
            return "cost"
        return None


def _raised(factor: float, used: int, held: int, most: int) -> float:
    """Factor of the bound ``most``, raised where the endpoint counts more than was thought possible."""
    return max(factor, _SAFETY * used / most) if used > held and most else factor
