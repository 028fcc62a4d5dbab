"""An endpoint that fails in every way: the answers are those of one that does not, or the run ends in one line."""

import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest

from pfl_audit.attacks.questions.engine import Answers, QueryEngine
from pfl_audit.core.store import ResponseStore
from pfl_audit.documents.corpus import Corpus
from pfl_audit.errors import EndpointError
from pfl_audit.models.endpoint.address import Key, read_address
from pfl_audit.models.endpoint.exchange import MAX_REPLY, AgainError, Exchange
from pfl_audit.models.endpoint.model import EndpointModel
from pfl_audit.progress import Silent
from tests.models.endpoint.said import Heard
from tests.models.endpoint.server import JSON, Act, Said, completion, plain, serving

Open = Callable[..., EndpointModel]
N = 12
CUT = Said(b'{"choices": [{"mess', length=500)
FAULTS = {
    "500": Said(b"oops", 500, "text/html"),
    "503": Said(b"", 503),
    "408": Said(b"", 408),
    "429": Said(b'{"error": {"code": "rate_limit_exceeded"}}', 429),
    "429 with seconds": Said(b"", 429, headers={"Retry-After": "0.05"}),
    "429 with a date": Said(b"", 429, headers={"Retry-After": "Tue, 24 Nov 2020 12:00:30 GMT"}),
    "429 with nonsense": Said(b"", 429, headers={"Retry-After": "soon\x7f"}),
    "cut": CUT,
    "empty": Said(b""),
    "garbage": Said(b'{"choices": [[[[', kind=JSON),
    "no completion": Said(b'{"choices": []}', kind=JSON),
    "web page": Said(b"<html>welcome</html>", kind="text/html"),
    "huge": Said(b" " * (MAX_REPLY + 1), kind=JSON),
    "compressed": Said(b"\x1f\x8b", headers={"Content-Encoding": "gzip"}),
    "slow": Said(b"{}", wait=0.6),
    "dripping": Said(b'{"choices": []} ' * 2, drip=0.05),
}


def at_first(fault: Said, times: int = 1) -> Act:
    """Fail each question some times, and answer it then."""
    seen: dict[str, int] = {}

    def act(number: int, body: dict[str, Any]) -> Said:
        key = str(body["messages"])
        seen[key] = seen.get(key, 0) + 1
        return fault if number > 1 and seen[key] <= times else plain(body)  # the first one finds out what is taken

    return act


def ask(model: EndpointModel, store: ResponseStore, red: Corpus, count: int = N) -> Answers:
    return QueryEngine(model, store, Silent()).ask(red.queries[:count], "x")


@pytest.fixture
def expected(red: Corpus, opened: Open, tmp_path: Any) -> dict[str, Any]:
    with serving(lambda _, body: plain(body)) as server, ResponseStore(tmp_path / "other.sqlite") as other:
        return ask(opened(server.url), other, red).responses


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_that_passes_costs_no_answer(
    name: str, red: Corpus, opened: Open, store: ResponseStore, expected: dict[str, Any]
) -> None:
    seconds = 0.4 if name in ("slow", "dripping") else 5
    with serving(at_first(FAULTS[name])) as server:
        answers = ask(opened(server.url, endpoint_timeout=seconds, endpoint_concurrency=6), store, red)
    assert answers.responses == expected
    assert not answers.problems
    questions = [str(body["messages"]) for body in server.bodies[1:]]
    assert {questions.count(one) for one in questions} == {2}


@pytest.mark.parametrize("name", [name for name in FAULTS if name not in ("slow", "dripping")])
def test_a_fault_that_stays_ends_the_run_and_keeps_the_answers(
    name: str, red: Corpus, opened: Open, store: ResponseStore
) -> None:
    with serving(lambda number, body: plain(body) if number <= 6 else FAULTS[name]) as server:
        model = opened(server.url, endpoint_attempts=3, endpoint_concurrency=1)
        with pytest.raises(EndpointError, match="no answer after 3 attempts"):
            ask(model, store, red)
    assert len(store) == 5
    assert len(server.bodies) == 6 + 3


def test_a_question_that_only_this_one_fails_is_left_out(red: Corpus, opened: Open, store: ResponseStore) -> None:
    bad: list[str] = []

    def act(number: int, body: dict[str, Any]) -> Said:
        bad[:] = bad or ([str(body)] if number == 2 else [])
        return Said(b"", 500) if str(body) in bad else plain(body)

    with serving(act) as server:
        answers = ask(opened(server.url, endpoint_attempts=3), store, red)
    assert len(answers.responses) == N - 1
    assert [problem.reason for problem in answers.problems] == ["the endpoint gave no answer in 3 attempts (HTTP 500)"]


def test_a_refused_question_is_left_out_without_another_attempt(
    red: Corpus, opened: Open, store: ResponseStore
) -> None:
    refuse = Said(b'{"error": {"code": "context_length_exceeded", "message": "secret"}}', 400)
    with serving(lambda number, body: refuse if number == 3 else plain(body)) as server:
        answers = ask(opened(server.url), store, red)
    assert len(server.bodies) == 1 + N
    (problem,) = answers.problems
    assert problem.reason == "the endpoint refused the question (HTTP 400, context_length_exceeded)"


def test_an_endpoint_that_refuses_everything_is_not_asked_for_ever(
    red: Corpus, opened: Open, store: ResponseStore
) -> None:
    with (
        serving(lambda number, body: plain(body) if number == 1 else Said(b"", 400)) as server,
        pytest.raises(EndpointError, match="refused 20 questions in a row"),
    ):
        ask(opened(server.url, endpoint_concurrency=2), store, red, 100)
    assert len(server.bodies) <= 1 + 20 + 1


@pytest.mark.parametrize(
    ("said", "match"),
    [
        (
            Said(b'{"error": {"code": "invalid_api_key", "message": "Incorrect key sk-secret"}}', 401),
            "endpoint-key-env",
        ),
        (Said(b"", 403), "endpoint-key-env"),
        (Said(b'{"error": {"code": "model_not_found"}}', 404), "model_not_found.*endpoint-model"),
        (Said(b"", 307, headers={"Location": "https://elsewhere.example/v1"}), "redirects elsewhere"),
        (Said(b"", 301, headers={"Location": "/v2"}), "redirects elsewhere"),
        (Said(b'{"error": {"code": "insufficient_quota"}}', 429), "no quota"),
        (Said(b"", 429, headers={"Retry-After": "86400"}), "86,400 s"),
        (Said(b'{"error": {"code": "sk-secret", "type": "secret of \\u001b[2J"}}', 418), r"\(HTTP 418\)"),
    ],
)
def test_what_no_attempt_can_cure_ends_the_run_at_once(
    said: Said, match: str, red: Corpus, opened: Open, store: ResponseStore
) -> None:
    with (
        serving(lambda number, body: plain(body) if number <= 4 else said) as server,
        pytest.raises(EndpointError, match=match) as caught,
    ):
        ask(opened(server.url, endpoint_concurrency=2), store, red)
    assert "secret" not in str(caught.value)
    assert len(server.bodies) <= 4 + 2
    assert len(store) == 3


@pytest.mark.parametrize("dated", [False, True])
def test_retry_after_holds_all_requests(dated: bool, red: Corpus, opened: Open, store: ResponseStore) -> None:
    def act(number: int, body: dict[str, Any]) -> Said:
        until = format_datetime(datetime.now(UTC) + timedelta(seconds=2), usegmt=True)  # in whole seconds: 1 to 2
        return Said(b"", 429, headers={"Retry-After": until if dated else "0.5"}) if number == 6 else plain(body)

    with serving(act) as server:
        ask(opened(server.url, endpoint_concurrency=1), store, red)
    gaps = [after - before for before, after in zip(server.times, server.times[1:], strict=False)]
    assert gaps[5] == max(gaps) >= (0.9 if dated else 0.5)


def test_a_server_that_is_gone_is_one_line(red: Corpus, opened: Open) -> None:
    with serving(lambda _, body: plain(body)) as server:
        pass
    began = time.monotonic()
    with pytest.raises(EndpointError, match=r"127.0.0.1:\d+ gives no answer after 3 attempts: no connection"):
        opened(server.url, endpoint_attempts=3)
    assert time.monotonic() - began < 5


def test_an_outage_is_waited_for(red: Corpus, opened: Open, store: ResponseStore, expected: dict[str, Any]) -> None:
    began = time.monotonic()
    with serving(
        lambda number, body: plain(body) if number < 4 or time.monotonic() - began > 0.3 else Said(b"", 502)
    ) as server:
        answers = ask(opened(server.url, endpoint_attempts=30), store, red)
    assert answers.responses == expected


def test_what_may_be_billed_counts_against_the_ceiling(
    red: Corpus, opened: Open, store: ResponseStore, heard: Heard
) -> None:
    with serving(lambda number, body: completion("x") if number == 1 else CUT) as server:
        model = opened(server.url, endpoint_attempts=2)
        with pytest.raises(EndpointError):
            ask(model, store, red)
    used = model.work()
    assert used["endpoint_requests"] == len(server.bodies)
    assert used["endpoint_tokens_sent"] > 3000 * (len(server.bodies) - 1)


def test_headers_that_come_byte_by_byte_do_not_extend_the_time_of_a_request() -> None:
    whole = completion("late").body
    lines = f"HTTP/1.1 200 OK\r\nContent-Type: {JSON}\r\nContent-Length: {len(whole)}\r\n\r\n".encode()

    def serve() -> None:
        connection, _ = listening.accept()
        with connection, suppress(OSError):
            connection.recv(65_536)
            for byte in lines:
                connection.sendall(bytes([byte]))
                time.sleep(0.05)
            connection.sendall(whole)

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=serve)
        thread.start()
        address = read_address(f"http://127.0.0.1:{listening.getsockname()[1]}/v1")
        with pytest.raises(AgainError, match="ReadTimeout") as caught:
            Exchange(address, Key(None), seconds=0.5, connections=1).post({})
        thread.join()
    assert caught.value.billed


def test_a_question_is_not_repeated_at_once_where_no_wait_is_asked_for(
    red: Corpus, opened: Open, store: ResponseStore
) -> None:
    with serving(at_first(Said(b"", 503, headers={"Retry-After": "0"}), 3)) as server:
        answers = ask(opened(server.url, endpoint_concurrency=1), store, red, 1)
    assert len(answers.responses) == 1
    gaps = [after - before for before, after in zip(server.times[1:], server.times[2:], strict=False)]
    assert sum(gaps) >= 0.5 * (0.01 + 0.02 + 0.04)
