import base64
import io
import json
import math
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from hashlib import sha256
from typing import Any

import pytest
from PIL import Image

from pfl_audit.attacks.questions.engine import QueryEngine
from pfl_audit.core.store import ResponseStore
from pfl_audit.documents.corpus import Corpus
from pfl_audit.documents.document import Document, Query
from pfl_audit.errors import EndpointError, UnanswerableError, UsageError
from pfl_audit.models.endpoint.model import EndpointModel
from pfl_audit.models.protocol import Capability
from pfl_audit.progress import Silent
from tests.models.endpoint.said import Heard
from tests.models.endpoint.server import Said, completion, plain, serving, text_of

Open = Callable[..., EndpointModel]


def answer(_: int, body: dict[str, Any]) -> Said:
    return plain(body)


def test_a_question_is_sent_with_its_picture_and_fixed_parameters(red: Corpus, opened: Open) -> None:
    with serving(answer) as server:
        list(opened(server.url, endpoint_answer_tokens=9).respond_each(red.queries[:1]))
    body = server.bodies[-1]
    picture, text = body["messages"][0]["content"]
    assert {name: body[name] for name in ("model", "temperature", "seed", "max_tokens", "stream")} == {
        "model": "tiny", "temperature": 0, "seed": 0, "max_tokens": 9, "stream": False,
    }  # fmt: skip
    assert text["text"] == f"{red.queries[0].question}\nAnswer with the value alone, as it is written on the page."
    kind, _, data = picture["image_url"]["url"].partition(",")
    page = Image.open(io.BytesIO(base64.b64decode(data)))
    assert (kind, max(page.size)) == ("data:image/jpeg;base64", 64)


@pytest.mark.parametrize("send", ["picture", "words", "both"])
def test_what_is_sent_is_chosen_and_a_page_without_picture_sends_its_words(
    send: str, opened: Open, page: Callable[..., Document]
) -> None:
    with_picture = Query("q", page("Acme", "{question}", "Media"), "Who {words}?", ("x",))
    bare = replace(with_picture, document=replace(with_picture.document, image=None))
    with serving(answer) as server:
        opened(server.url, endpoint_send=send).respond([with_picture, bare])
    first, second = sorted(server.bodies[1:], key=lambda body: isinstance(body["messages"][0]["content"], str))
    assert isinstance(first["messages"][0]["content"], str) == (send == "words")
    assert ("Acme {question} Media" in text_of(first)) == (send != "picture")
    assert text_of(second).startswith("Acme {question} Media\n\nWho {words}?\n")


def test_answers_come_one_by_one_and_few_are_ever_on_their_way(red: Corpus, opened: Open) -> None:
    gate, together = threading.Event(), threading.Barrier(3)

    def act(number: int, body: dict[str, Any]) -> Said:
        if 2 <= number <= 4:
            together.wait(10)  # broken, and so an error, unless three are on their way at once
        if number == 2:
            gate.wait(10)
        return plain(body)

    with serving(act) as server:
        model = opened(server.url, endpoint_concurrency=3, endpoint_timeout=60)
        each = model.respond_each(red.queries[:20])
        for taken in range(1, 6):  # while one question waits for its answer
            next(each)
            time.sleep(0.1)  # in which one that does not wait for its answers to be taken runs ahead
            assert len(server.bodies) <= 1 + taken - 1 + 3
        gate.set()
        assert len(list(each)) == 15
    assert server.most == 3


def test_an_answer_is_stored_before_the_next_question_starts(red: Corpus, opened: Open, store: ResponseStore) -> None:
    stored: list[int] = []

    class Watched(ResponseStore):
        def put(self, responses: Any) -> None:
            super().put(responses)
            stored.append(len(responses))

    store.__class__ = Watched
    with (
        serving(lambda number, body: plain(body) if number <= 8 else Said(b"", 401)) as server,
        pytest.raises(EndpointError),
    ):
        QueryEngine(opened(server.url), store, Silent()).ask(red.queries, "x")
    assert stored == [1] * 7


def test_answers_do_not_depend_on_concurrency(red: Corpus, opened: Open) -> None:
    with serving(answer) as server:
        one = opened(server.url, endpoint_concurrency=1).respond(red.queries[:20])
        many = opened(server.url, endpoint_concurrency=8).respond(red.queries[:20])
    assert one == many


@pytest.mark.parametrize("logprobs", [None, [math.log(0.5), math.log(0.5)]])
def test_confidence_is_a_capability_where_log_probabilities_come(
    logprobs: list[float] | None, red: Corpus, opened: Open, store: ResponseStore
) -> None:
    with serving(lambda *_: completion("Acme", logprobs)) as server:
        model = opened(server.url)
        (response,) = model.respond(red.queries[:1])
    assert (Capability.CONFIDENCE in model.capabilities) == (logprobs is not None)
    assert response.confidence == (pytest.approx(0.25) if logprobs else None)
    assert {Capability.ANSWER, Capability.LIVE} <= model.capabilities
    assert Capability.LOSS not in model.capabilities
    assert ("logprobs" in server.bodies[-1]) == (logprobs is not None)


@pytest.mark.parametrize("banned", [{"logprobs"}, {"max_tokens"}, {"max_tokens", "logprobs", "seed", "temperature"}])
def test_parameters_that_an_endpoint_refuses_are_left_out_and_this_is_found_out_once(
    banned: set[str], red: Corpus, opened: Open
) -> None:
    with serving(lambda _, body: Said(b"", 400) if banned & set(body) else plain(body)) as server:
        opened(server.url)
        tried = len(server.bodies)
        model = opened(server.url)
        assert len(server.bodies) == tried
        model.respond(red.queries[:3])
    assert len(server.bodies) == tried + 3
    assert not banned & set(server.bodies[-1])
    assert {"max_tokens", "max_completion_tokens"} & set(server.bodies[-1])


def test_an_endpoint_that_takes_no_form_of_a_request_is_one_line(opened: Open) -> None:
    with serving(lambda *_: Said(b"", 422)) as server, pytest.raises(EndpointError, match=r"takes no form.*HTTP 422"):
        opened(server.url)


def test_the_fingerprint_covers_what_decides_the_answers_and_no_more(opened: Open) -> None:
    with serving(answer) as server, serving(answer) as other:
        first = opened(server.url).fingerprint
        assert opened(server.url, endpoint_concurrency=9, endpoint_rpm=1e6, endpoint_attempts=2).fingerprint == first
        changes: list[dict[str, Any]] = [
            {"endpoint_model": "b"}, {"endpoint_send": "both"}, {"endpoint_side": 65}, {"endpoint_answer_tokens": 5},
        ]  # fmt: skip
        found = {opened(server.url, **change).fingerprint for change in changes} | {opened(other.url).fingerprint}
    assert len(found | {first}) == 6


def test_a_page_that_cannot_be_read_is_a_problem_and_is_not_sent(
    red: Corpus, opened: Open, store: ResponseStore, page: Callable[..., Document]
) -> None:
    bad = Query("bad", page("a", name="bad_1"), "?", ("a",))
    assert bad.document.image is not None
    bad.document.image.path.write_bytes(b"no image")
    with serving(answer) as server:
        model = opened(server.url)
        answers = QueryEngine(model, store, Silent()).ask([bad, *red.queries[:4]], "x")
        with pytest.raises(UnanswerableError):
            model.respond([bad])
    assert len(server.bodies) == 1 + 4
    assert [problem.record for problem in answers.problems] == ["bad_1"]


def test_the_estimate_is_revised_after_fifty_answers_and_holds(red: Corpus, opened: Open, heard: Heard) -> None:
    with serving(answer) as server:
        model = opened(server.url, endpoint_send="words", endpoint_price_in=1e6, endpoint_price_out=1e6)
        list(model.respond_each(sorted(red.queries, key=lambda query: sha256(query.id.encode()).digest())))
    (line,) = [line for line in heard.lines if "revised" in line]
    sent = int(line.partition("answers: ")[2].partition(" tokens")[0].replace(",", ""))
    probe = 20 + len(text_of(server.bodies[0])) // 4 + len(json.dumps(server.bodies[0]["messages"])) // 100
    assert model.work()["endpoint_tokens_sent"] - probe == pytest.approx(sent, rel=0.1)


@pytest.mark.parametrize("limit", ["requests", "tokens", "cost"])
def test_no_request_goes_beyond_the_ceiling_and_the_answers_are_kept(
    limit: str, red: Corpus, opened: Open, store: ResponseStore
) -> None:
    most = {"requests": 20, "tokens": 9000, "cost": 9000.0}[limit]
    given = {f"endpoint_max_{limit}": most, "endpoint_price_in": 1e6, "endpoint_price_out": 1e6}
    with serving(answer) as server:
        model = opened(server.url, **given, endpoint_send="words", endpoint_answer_tokens=8, endpoint_concurrency=5)
        with pytest.raises(UsageError, match=f"limit of {limit} is reached.*--endpoint-max-{limit}"):
            QueryEngine(model, store, Silent()).ask(red.queries, "x")
    used = model.work()
    assert len(store) == used["endpoint_requests"] - 1 == len(server.bodies) - 1 > 10
    spent = {"requests": used["endpoint_requests"]}.get(
        limit, used["endpoint_tokens_sent"] + used["endpoint_tokens_answered"]
    )
    assert 0.5 * most < spent <= most
