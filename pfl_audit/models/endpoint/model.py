"""A model behind an endpoint: answers to questions about pages, several at once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import asdict, dataclass, field
from itertools import islice
from typing import Any, Final

from pfl_audit.documents.document import Query
from pfl_audit.errors import AuditError, UnanswerableError
from pfl_audit.files import sha256_json
from pfl_audit.models.endpoint import Sent
from pfl_audit.models.endpoint.address import Address
from pfl_audit.models.endpoint.budget import Load, load_of
from pfl_audit.models.endpoint.channel import Channel
from pfl_audit.models.endpoint.dialect import SEED, Dialect
from pfl_audit.models.endpoint.forecast import REVISED_AFTER, Forecast
from pfl_audit.models.endpoint.pace import StoppedError
from pfl_audit.models.endpoint.prompt import TEMPLATE, Prompt, prompt_of
from pfl_audit.models.endpoint.reply import Usage
from pfl_audit.models.protocol import Capability, Response
from pfl_audit.progress import Progress

_SENT: Final = {
    "picture": "the picture of the page (its words where there is none)",
    "words": "the words of the page",
    "both": "the picture and the words of the page",
}


@dataclass(frozen=True)
class Request:
    """What decides the answers of an endpoint, besides the page and the question.

    Attributes:
        model: Name of the model at the endpoint.
        sent: What is sent of a page.
        side: Longest side of a picture, in pixels.
        answer_tokens: Tokens of an answer at most.
        template: Prompt with the places ``{question}`` and ``{words}``.
    """

    model: str
    sent: Sent = "picture"
    side: int = 1600
    answer_tokens: int = 64
    template: str = TEMPLATE

    def prompt(self, query: Query) -> Prompt:
        """The prompt of a question."""
        return prompt_of(query, self.sent, self.side, self.template)

    def load(self, query: Query) -> Load:
        """Tokens of a question, before it is asked.

        Raises:
            UnanswerableError: The page's picture cannot be read.
        """
        return load_of(self.prompt(query), self.answer_tokens)

    def body(self, prompt: Prompt, dialect: Dialect) -> dict[str, Any]:
        """JSON of a request.

        Raises:
            UnanswerableError: The page's picture cannot be read.
        """
        messages = [{"role": "user", "content": prompt.content()}]
        return {"model": self.model, "messages": messages, **dialect.parameters(self.answer_tokens)}

    def fingerprint(self, address: Address) -> str:
        """SHA-256 of address, model, prompt and parameters."""
        return sha256_json(["endpoint", address.place, asdict(self), {"temperature": 0, "seed": SEED}])

    def words(self) -> str:
        """What is sent with every question, for people."""
        return f"{_SENT[self.sent]}, pictures as JPEG of at most {self.side:,} pixels a side, and the question"


@dataclass(eq=False)
class EndpointModel:
    """A model behind an OpenAI-compatible chat endpoint, as a ``ConcurrentModel``.

    Attributes:
        dialect: Parameters that the endpoint takes; ``logprobs`` where it returns them.
        concurrency: Requests in flight at once.
        agree: Called before questions are sent; raises UsageError if the user does not agree to the ceiling.
    """

    family = "endpoint"

    address: Address
    request: Request
    dialect: Dialect
    channel: Channel
    forecast: Forecast
    concurrency: int
    agree: Callable[[], None]
    progress: Progress
    _revised: bool = field(default=False, init=False)

    @property
    def fingerprint(self) -> str:
        """SHA-256 of address, model, prompt and parameters; what the endpoint serves under the name is not known."""
        return self.request.fingerprint(self.address)

    @property
    def capabilities(self) -> frozenset[Capability]:
        """Answers to any question, and confidences if log-probabilities come; chat gives no loss of other answers."""
        sure = {Capability.CONFIDENCE} if self.dialect.logprobs else set[Capability]()
        return frozenset({Capability.ANSWER, Capability.LIVE, *sure})

    def describe(self) -> dict[str, Any]:
        """Facts for the report: the host, and what was sent to it."""
        confidence = "log-probabilities give" if self.dialect.logprobs else "it returns no log-probabilities, and so no"
        return {
            "family": self.family,
            "path": f"{self.request.model} at {self.address.host}",
            "sha256": self.fingerprint,
            "parameters": None,
            "notes": [
                f"prompt: {self.request.template}",
                f"asked over the network: the host {self.address.host}, model {self.request.model}",
                f"sent with every question: {self.request.words()}",
                f"asked with {self.dialect.words()}, answers of at most {self.request.answer_tokens} tokens",
                f"{confidence} confidence; a chat endpoint gives no loss of the right answer",
                "the fingerprint covers host, model name, prompt and parameters, not the weights behind them",
            ],
        }

    def work(self) -> dict[str, int]:
        """Requests and tokens of this run."""
        used = self.channel.budget
        return {
            "endpoint_requests": used.requests,
            "endpoint_tokens_sent": used.sent,
            "endpoint_tokens_answered": used.answered,
        }

    def cost(self, query: Query) -> int:
        """The same for every question: none waits for another."""
        return 1

    def batch_size(self, cost: int) -> int:
        """Questions in flight."""
        return self.concurrency

    def respond(self, queries: Sequence[Query]) -> list[Response]:
        """Answer a batch, in order.

        Raises:
            UnanswerableError: One of the queries cannot be answered.
        """
        found = dict(self.respond_each(queries))
        for one in found.values():
            if isinstance(one, UnanswerableError):
                raise one
        return [one for at in range(len(queries)) if isinstance(one := found[at], Response)]

    def respond_each(self, queries: Sequence[Query]) -> Iterator[tuple[int, Response | UnanswerableError]]:
        """Answer questions in any order, each as soon as it is answered.

        A question starts when an earlier answer has been taken, so that no more than ``concurrency`` are on their way.

        Raises:
            EndpointError: The endpoint answers none any more; what was in flight is yielded first.
            UsageError: A limit is reached, or the user declines.
        """
        loads = [self._load(query) for query in queries]
        self.forecast.begin(loads)
        if queries:
            self.agree()
        stop, failure = threading.Event(), None
        pool = ThreadPoolExecutor(self.concurrency, "endpoint")
        waiting = iter(range(len(queries)))
        running: dict[Future[tuple[Response, Usage]], int] = {}

        def start(most: int) -> None:
            for at in islice(waiting, most):
                running[pool.submit(self._ask, queries[at], loads[at], stop)] = at

        try:
            start(self.concurrency)
            while running:
                done, _ = wait(running, return_when=FIRST_COMPLETED)
                for one in done:
                    at = running.pop(one)
                    try:
                        response, usage = one.result()
                    except UnanswerableError as error:
                        self.forecast.skip(loads[at])
                        yield at, error
                    except (AuditError, StoppedError) as error:
                        failure = failure or error
                        stop.set()
                    else:
                        self.forecast.note(loads[at], usage)
                        yield at, response
                        self._revise()
                    if failure is None:
                        start(1)
            if failure is not None:
                raise failure
        finally:
            stop.set()
            pool.shutdown(wait=False, cancel_futures=True)

    def _ask(self, query: Query, load: Load, stop: threading.Event) -> tuple[Response, Usage]:
        body = self.request.body(self.request.prompt(query), self.dialect)
        reply, usage = self.channel.ask(body, load, stop)
        return reply.response, usage

    def _load(self, query: Query) -> Load:
        try:
            return self.request.load(query)
        except UnanswerableError:  # which the question meets again when it is asked
            return Load(0.0, 0, 0)

    def _revise(self) -> None:
        """Revise the estimate once, from the usage of the first answers."""
        if self._revised or self.forecast.seen < REVISED_AFTER:
            return
        self._revised = True
        budget, (sent, answered) = self.channel.budget, self.forecast.rest()
        sent, answered = sent + budget.sent, answered + budget.answered
        beyond = budget.ceiling.tokens is not None and sent + answered > budget.ceiling.tokens
        self.progress.say(
            f"estimate revised after {REVISED_AFTER} answers: {self.forecast.words(*self.forecast.step())} in this "
            f"step, and at most {self.forecast.words(sent, answered)} in all"
            + ("; that is beyond the ceiling, where the run ends and can be resumed" if beyond else "")
        )
