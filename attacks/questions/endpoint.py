"""Opening an endpoint: its address and key, the estimate and its question, and which parameters it takes."""

from __future__ import annotations

import random
import sys
import threading
from dataclasses import asdict, replace

from pfl_audit.attacks.questions.inputs import EndpointInputs
from pfl_audit.core.redaction import visible
from pfl_audit.core.store import Records, ResponseStore
from pfl_audit.documents.corpus import Corpus
from pfl_audit.documents.document import Query
from pfl_audit.errors import EndpointError, UnanswerableError, UsageError
from pfl_audit.files import sha256_json
from pfl_audit.models.endpoint.address import read_address, read_key
from pfl_audit.models.endpoint.budget import Budget, Limits, Load, Prices
from pfl_audit.models.endpoint.channel import Channel
from pfl_audit.models.endpoint.dialect import DIALECTS, Dialect
from pfl_audit.models.endpoint.exchange import Exchange, RefusedError
from pfl_audit.models.endpoint.forecast import Forecast
from pfl_audit.models.endpoint.model import EndpointModel, Request
from pfl_audit.models.endpoint.pace import Pace
from pfl_audit.models.endpoint.prompt import TEMPLATE
from pfl_audit.progress import Progress

_SAMPLE = 200
"""Questions of the corpus from which the mean of the estimate is taken."""
_BACKOFF = 1.0
"""Seconds of the first backoff."""
_FIRST = "What kind of page is this?"
"""Question of the request that finds out what the endpoint takes."""
_POSSIBLE = (*DIALECTS, *(replace(one, logprobs=False) for one in DIALECTS))


def open_endpoint(
    inputs: EndpointInputs,
    red: Corpus,
    planned: int,
    store: ResponseStore,
    progress: Progress,
    prompt: str | None = None,
) -> EndpointModel:
    """Open the model behind an endpoint; the first time with one request that finds out what it takes.

    Args:
        red: Corpus whose pages the estimate is made from.
        planned: Questions that the audit is going to ask.
        prompt: Template with {question} and maybe {words}, or None for the endpoint's own.

    Raises:
        UsageError: An input is missing or wrong, the user declines, or a limit is reached.
        EndpointError: The endpoint gives no answer.
    """
    if not inputs.endpoint or not inputs.endpoint_model:
        raise UsageError("an endpoint needs --endpoint and --endpoint-model", "Give both")
    prices = Prices(inputs.endpoint_price_in, inputs.endpoint_price_out)
    if inputs.endpoint_max_cost is not None and not prices.known:
        raise UsageError(
            "--endpoint-max-cost needs the prices of tokens", "Give --endpoint-price-in and --endpoint-price-out"
        )
    limits = Limits(inputs.endpoint_max_requests, inputs.endpoint_max_tokens, inputs.endpoint_max_cost)
    address = read_address(inputs.endpoint, insecure=inputs.endpoint_insecure)
    sent = (inputs.endpoint_send, inputs.endpoint_side, inputs.endpoint_answer_tokens)
    request = Request(inputs.endpoint_model, *sent, prompt or TEMPLATE)
    records, name = Records(store), sha256_json(["dialect", request.fingerprint(address)])
    known = records.get(name)  # none, or none of this version, where the endpoint is to be asked what it takes
    dialect = next((one for one in _POSSIBLE if asdict(one) == known), None)
    sample, mean = _sample(red, request)
    questions = max(planned, len(red.queries)) + (dialect is None)
    forecast = Forecast(questions, mean, request.answer_tokens, prices)
    budget = Budget(prices)
    channel = Channel(
        address.host,
        Exchange(
            address,
            read_key(inputs.endpoint_key_env, address),
            seconds=inputs.endpoint_timeout,
            connections=inputs.endpoint_concurrency,
        ),
        Pace(inputs.endpoint_rpm, _BACKOFF, random.Random(0)),  # noqa: S311 - jitter
        budget,
        inputs.endpoint_attempts,
        progress,
    )

    def agree() -> None:
        if budget.ceiling.requests:
            return
        ceiling = forecast.ceiling(limits)
        _require_consent(
            f"The audit asks {request.model} at {address.host} about {forecast.questions:,} questions, and sends "
            f"{request.words()}. Estimate: at most {forecast.words(*forecast.rest())}. "
            f"Ceiling: {ceiling.words()}; no request goes beyond it.",
            progress,
            yes=inputs.yes,
        )
        budget.ceiling = ceiling

    if dialect is None:
        agree()
        dialect = _find_dialect(request, sample, channel, forecast, address.host)
        records.put(name, asdict(dialect))
    return EndpointModel(
        address,
        request,
        dialect,
        channel,
        forecast,
        concurrency=inputs.endpoint_concurrency,
        agree=agree,
        progress=progress,
    )


def _require_consent(text: str, progress: Progress, *, yes: bool) -> None:
    """Print what is to be sent, and ask for it in a terminal.

    Args:
        text: What is sent where, the estimate and the ceiling.
        yes: Whether the user has agreed on the command line.

    Raises:
        UsageError: There is no terminal to ask in, or the user declines.
    """
    if yes:
        progress.say(text)
        return
    if not (sys.stdin and sys.stdin.isatty() and sys.stderr and sys.stderr.isatty()):
        raise UsageError(f"{text} There is no terminal to ask in", "Give --yes to send it")
    sys.stderr.write(f"{visible(text, 2000)}\nSend it? [y/N] ")
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise UsageError("nothing was sent to the endpoint", "Answer y, or give --yes")


def _sample(red: Corpus, request: Request) -> tuple[Query, float]:
    """A question about a page that can be read, and the mean of the tokens that a question sends.

    Raises:
        UnanswerableError: No page of the sample can be read.
    """
    found: list[tuple[Query, Load]] = []
    error: UnanswerableError | None = None
    for query in red.queries[:: max(1, len(red.queries) // _SAMPLE)]:
        try:
            found.append((query, request.load(query)))
        except UnanswerableError as one:
            error = one
    if not found:
        raise error or UnanswerableError("the corpus holds no question", "Give questions", "there is no question")
    return found[0][0], sum(load.expected for _, load in found) / len(found)


def _find_dialect(request: Request, query: Query, channel: Channel, forecast: Forecast, host: str) -> Dialect:
    """Ask one question in one form after another, until the endpoint takes one.

    Raises:
        EndpointError: It takes none.
        UsageError: A limit is reached.
    """
    first = replace(query, question=_FIRST)
    load, refused = request.load(first), ""
    for dialect in DIALECTS:
        try:
            reply, usage = channel.attempt(request.body(request.prompt(first), dialect), load, threading.Event())
        except RefusedError as error:
            refused = str(error)
            continue
        forecast.note(load, usage)
        return replace(dialect, logprobs=dialect.logprobs and reply.response.confidence is not None)
    raise EndpointError(
        f"{host} takes no form of the request ({refused})",
        "Check --endpoint-model; give --endpoint-send words for a model that takes no pictures",
    )
