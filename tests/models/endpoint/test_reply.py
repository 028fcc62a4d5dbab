import json
import math
from typing import Any

import pytest

from pfl_audit.models.endpoint.reply import Usage, parse_reply


def reply(message: object = None, logprobs: object = None, **more: object) -> bytes:
    choice = {"message": {"content": "Acme"} if message is None else message, "logprobs": logprobs}
    return json.dumps({"choices": [choice], **more}).encode()


def tokens(*values: object) -> dict[str, Any]:
    return {"content": [{"logprob": value} for value in values]}


@pytest.mark.parametrize(
    ("content", "answer"),
    [
        (" Acme \n", "Acme"),
        ("", ""),
        (None, ""),
        ([{"type": "text", "text": "Ac"}, {"type": "thinking", "x": 1}, {"type": "text", "text": "me"}], "Acme"),
        ("a" * 20_000, "a" * 10_000),
        ("\ud800x", "?x"),
    ],
)
def test_the_answer_is_the_text_of_the_message(content: object, answer: str) -> None:
    assert parse_reply(reply({"content": content})).response.answer == answer


def test_confidence_is_the_product_of_the_tokens_probabilities() -> None:
    found = parse_reply(reply(logprobs=tokens(math.log(0.5), math.log(0.4), 0))).response
    assert found.confidence == pytest.approx(0.2)
    assert (found.loss, found.tokens) == (None, None)


@pytest.mark.parametrize(
    "logprobs",
    [
        None, [], {}, {"content": None}, {"content": []}, {"content": [None]}, tokens("0"), tokens(None), tokens(True),
        tokens(0.5), tokens(math.nan), {"tokens": ["a"]}, tokens(-0.1, None),
    ],
)  # fmt: skip
def test_what_is_no_probability_gives_no_confidence(logprobs: object) -> None:
    assert parse_reply(reply(logprobs=logprobs)).response.confidence is None


def test_an_impossible_token_gives_a_confidence_of_zero() -> None:
    for impossible in (-math.inf, -(10**400)):
        assert parse_reply(reply(logprobs=tokens(-0.5, impossible))).response.confidence == 0.0


@pytest.mark.parametrize(
    ("usage", "found"),
    [
        ({"prompt_tokens": 5, "completion_tokens": 2}, Usage(5, 2)),
        ({"prompt_tokens": 5}, None),
        ({"prompt_tokens": -5, "completion_tokens": 2}, None),
        ({"prompt_tokens": 10**30, "completion_tokens": 2}, None),
        ({"prompt_tokens": True, "completion_tokens": 2.5}, None),
        ("many", None),
        (None, None),
    ],
)
def test_usage_is_taken_only_where_it_is_two_counts(usage: object, found: Usage | None) -> None:
    assert parse_reply(reply(usage=usage)).usage == found


@pytest.mark.parametrize(
    "body",
    [
        b"", b"null", b"[]", b"{", b"\xff\xfe", b'{"choices": []}', b'{"choices": [{}]}', b"[" * 100_000,
        b'{"choices": {"a": 1}}', b'{"choices": [{"message": "Acme"}]}', reply({"content": 5}),
        reply({"content": ["Acme"]}), reply({"content": [{"type": "text"}]}),
    ],
)  # fmt: skip
def test_what_is_no_completion_is_named_and_not_quoted(body: bytes) -> None:
    with pytest.raises(ValueError, match=r"^a reply that is (not JSON|no chat completion)$"):
        parse_reply(body)
