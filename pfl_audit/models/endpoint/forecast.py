"""Requests, tokens and cost of an audit before and while it asks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pfl_audit.models.endpoint.budget import Limits, Load, Prices
from pfl_audit.models.endpoint.reply import Usage

REVISED_AFTER: Final = 50
"""Requests after which the estimate is revised from ``usage``."""
_REQUESTS: Final = 2
_TOKENS: Final = 3
"""How many times the estimate the ceiling is where the user sets none."""


class Forecast:
    """Estimate of what is still to be asked, corrected by what was used.

    Args:
        mean: Tokens sent with an average question, by rules of thumb.
        answer: Tokens of an answer at most.

    Attributes:
        questions: Questions still to ask.
        seen: Answers whose usage is known.
    """

    def __init__(self, questions: int, mean: float, answer: int, prices: Prices) -> None:
        self.questions, self.seen = questions, 0
        self._mean, self._answer, self._prices = mean, answer, prices
        self._pending, self._pending_count = 0.0, 0
        self._expected = 0.0
        self._used = self._before = Usage(0, 0)

    def begin(self, loads: Sequence[Load]) -> None:
        """Take note of the questions of a step before they are asked."""
        self._pending, self._pending_count = sum(load.expected for load in loads), len(loads)
        self.questions = max(self.questions, len(loads))
        self._before = self._used

    def note(self, load: Load, usage: Usage) -> None:
        """Take note of an answer."""
        self.skip(load)
        self.seen += 1
        self._expected += load.expected
        self._used = Usage(self._used.sent + usage.sent, self._used.answered + usage.answered)

    def skip(self, load: Load) -> None:
        """Take note of a question that is done, without an answer."""
        self.questions -= 1
        self._pending_count -= 1
        self._pending -= load.expected

    def step(self) -> tuple[float, float]:
        """Tokens sent and answered in this step, its answers so far included."""
        sent, answered = self._pending * self._scale, self._pending_count * self._mean_answer
        return sent + self._used.sent - self._before.sent, answered + self._used.answered - self._before.answered

    def rest(self) -> tuple[float, float]:
        """Tokens sent and answered by the questions that are still to ask, those of later steps included."""
        later = max(0, self.questions - self._pending_count)
        return (self._pending + later * self._mean) * self._scale, self.questions * self._mean_answer

    @property
    def _scale(self) -> float:
        """Tokens of ``usage`` for a token by rules of thumb."""
        return self._used.sent / self._expected if self._expected else 1.0

    @property
    def _mean_answer(self) -> float:
        return self._used.answered / self.seen if self.seen else self._answer / 2

    def ceiling(self, limits: Limits) -> Limits:
        """The limits that the user sets, or multiples of the estimate."""
        sent, answered = (_TOKENS * tokens for tokens in self.rest())
        cost = self._prices.cost(sent, answered) if self._prices.known else None
        return Limits(
            limits.requests or _REQUESTS * (self.questions + 10),
            limits.tokens or round(sent + answered) + 10_000,
            cost if limits.cost is None else limits.cost,
        )

    def words(self, sent: float, answered: float) -> str:
        """Tokens and their cost, for people."""
        cost = f", cost {self._prices.cost(sent, answered):,.2f}" if self._prices.known else ""
        return f"{round(sent):,} tokens sent and {round(answered):,} answered{cost}"
