"""Asking an endpoint: attempts with backoff, within the pace and the budget."""

from __future__ import annotations

import threading
from typing import Any

from pfl_audit.errors import EndpointError, UnanswerableError
from pfl_audit.models.endpoint.budget import Budget, Load
from pfl_audit.models.endpoint.exchange import AgainError, Exchange, RefusedError
from pfl_audit.models.endpoint.pace import Pace
from pfl_audit.models.endpoint.reply import Reply, Usage
from pfl_audit.progress import Progress

_MOST_REFUSED = 20
"""Questions in a row that the endpoint takes for wrong before the run ends."""
_WORTH_SAYING = 5.0
"""Seconds."""


class Channel:
    """Asks one question at a time, from several threads.

    Args:
        host: Host, for errors.
        attempts: Attempts at one question.
    """

    def __init__(
        self, host: str, exchange: Exchange, pace: Pace, budget: Budget, attempts: int, progress: Progress
    ) -> None:
        self.budget = budget
        self._host, self._exchange, self._pace, self._attempts, self._progress = (
            host, exchange, pace, attempts, progress,
        )  # fmt: skip
        self._answered = self._refused = 0

    def ask(self, body: dict[str, Any], load: Load, stop: threading.Event) -> tuple[Reply, Usage]:
        """Ask one question, as often as the attempts allow.

        Returns:
            The reply and its tokens, estimated where the endpoint does not count them.

        Raises:
            UnanswerableError: The endpoint answers other questions, and not this one.
            EndpointError: It answers none any more.
            UsageError: A limit is reached.
            StoppedError: The run ends meanwhile.
        """
        try:
            return self.attempt(body, load, stop)
        except RefusedError as error:
            self._refused += 1
            if self._refused >= _MOST_REFUSED:
                raise EndpointError(
                    f"{self._host} has refused {self._refused} questions in a row ({error})",
                    "Check --endpoint-model and --endpoint-send",
                ) from error
            raise _unanswerable(self._host, f"the endpoint refused the question ({error})") from error

    def attempt(self, body: dict[str, Any], load: Load, stop: threading.Event) -> tuple[Reply, Usage]:
        """Ask, with a form of the request that the endpoint may take for wrong.

        Raises:
            RefusedError: It does.
            UnanswerableError: As in ``ask``; likewise EndpointError, UsageError and StoppedError.
        """
        answered, number = self._answered, 1
        while True:
            others, answered = self._answered > answered, self._answered  # answers since the attempt before this one
            try:
                return self._once(body, load, stop)
            except AgainError as error:
                if number == self._attempts:
                    raise self._given_up(error, others=others or self._answered > answered) from error
                self._wait(error, number, stop)
            number += 1

    def close(self) -> None:
        """Close all connections."""
        self._exchange.close()

    def _once(self, body: dict[str, Any], load: Load, stop: threading.Event) -> tuple[Reply, Usage]:
        self._pace.turn(stop)
        held = self.budget.reserve(load)
        used = Usage(0, 0)
        try:
            reply = self._exchange.post(body)
            used = reply.usage or Usage(round(load.expected), min(load.answer, len(reply.response.answer) // 3 + 1))
        except AgainError as error:
            if error.billed:
                used = Usage(held.sent, held.answered)  # what it has cost is unknown
            raise
        finally:
            self.budget.settle(held, used)
        self._answered, self._refused = self._answered + 1, 0
        return reply, used

    def _wait(self, error: AgainError, attempt: int, stop: threading.Event) -> None:
        seconds = self._pace.backoff(attempt)  # also where less is asked for, such as a date that the clock has passed
        if error.wait is not None:
            self._pace.close(error.wait)
            if error.wait >= _WORTH_SAYING:
                self._progress.say(f"{self._host} asks to wait {error.wait:,.0f} s ({error})")
        elif seconds >= _WORTH_SAYING:
            self._progress.say(f"{self._host}: {error}; next attempt in {seconds:.0f} s")
        self._pace.rest(seconds, stop)

    def _given_up(self, error: AgainError, *, others: bool) -> Exception:
        if others and not error.busy:
            return _unanswerable(self._host, f"the endpoint gave no answer in {self._attempts} attempts ({error})")
        remedy = "Lower --endpoint-rpm or --endpoint-concurrency, and repeat" if error.busy else "Repeat the command"
        return EndpointError(
            f"{self._host} gives no answer after {self._attempts} attempts: {error}; the answers so far are kept",
            remedy,
        )


def _unanswerable(host: str, reason: str) -> UnanswerableError:
    return UnanswerableError(f"{host}: {reason}", "Ask it apart", reason)
