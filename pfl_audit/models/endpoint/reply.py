"""Replies of an endpoint: hostile JSON in, an answer with its confidence and usage out."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from pfl_audit.models.protocol import Response
from pfl_audit.models.recorded import MAX_RECORDED

_MOST_TOKENS: Final = 10**9
_SLACK: Final = 1e-3
"""How far above 0 a rounded log-probability may be."""
_LEAST: Final = -1e6
"""Log-probability of a token that counts as impossible."""


@dataclass(frozen=True)
class Usage:
    """Tokens of one request as the endpoint counts them.

    Attributes:
        sent: Tokens of the prompt.
        answered: Tokens of the answer.
    """

    sent: int
    answered: int


@dataclass(frozen=True)
class Reply:
    """What an endpoint answered.

    Attributes:
        response: Answer, with its confidence if log-probabilities came.
        usage: Tokens, or None where the endpoint gives none.
    """

    response: Response
    usage: Usage | None


def parse_reply(body: bytes) -> Reply:
    """Read a chat completion.

    Raises:
        ValueError: It is none; the text says what is wrong and quotes nothing.
    """
    try:
        reply = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise ValueError("a reply that is not JSON") from error
    try:
        choice = reply["choices"][0]
        message = choice["message"]
        answer = _text(message.get("content"))
    except (KeyError, IndexError, TypeError, AttributeError) as error:
        raise ValueError("a reply that is no chat completion") from error
    return Reply(Response(answer.strip()[:MAX_RECORDED], _confidence(choice.get("logprobs"))), _usage(reply))


def _text(content: object) -> str:
    """Content of a message: text, parts with text, or nothing (such as for a refusal)."""
    if content is None:
        return ""
    if isinstance(content, list):
        content = "".join(part["text"] for part in content if part.get("type") == "text")
    if not isinstance(content, str):
        raise TypeError("not a text")
    return content.encode(errors="replace").decode()  # JSON may hold half a surrogate pair


def _confidence(logprobs: object) -> float | None:
    """Product of the probabilities of the answer's tokens; None if one is missing or is no probability."""
    tokens = logprobs.get("content") if isinstance(logprobs, Mapping) else None
    if not isinstance(tokens, list) or not tokens:
        return None
    values = [token.get("logprob") if isinstance(token, Mapping) else None for token in tokens]
    total = 0.0
    for value in values:
        if isinstance(value, bool) or not isinstance(value, int | float) or not value <= _SLACK:
            return None
        total += max(value, _LEAST)  # JSON has whole numbers that no float can hold
    return math.exp(min(0.0, total))


def _usage(reply: Mapping[str, Any]) -> Usage | None:
    usage = reply.get("usage")
    counts = [usage.get(name) for name in ("prompt_tokens", "completion_tokens")] if isinstance(usage, Mapping) else []
    whole = [count for count in counts if isinstance(count, int) and not isinstance(count, bool)]
    if len(whole) != 2 or not all(0 <= count <= _MOST_TOKENS for count in whole):
        return None
    return Usage(*whole)
