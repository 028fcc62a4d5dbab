"""Servers for the tests of endpoints: one that does what a test wants, and one that forwards and records.

``python -m tests.models.endpoint.server PORT LOG [UPSTREAM]`` answers by itself, or forwards to UPSTREAM, and appends
one line a request to LOG: the SHA-256 of its body, whether it was answered, and the tokens of the answer's usage.
"""

from __future__ import annotations

import hashlib
import json
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

JSON = "application/json"


@dataclass
class Said:
    """What a server does with a request.

    Attributes:
        length: ``Content-Length`` if it is not that of the body: the connection ends before.
        wait: Seconds before the status.
        drip: Seconds between the bytes of the body.
    """

    body: bytes = b""
    status: int = 200
    kind: str = JSON
    headers: dict[str, str] = field(default_factory=dict)
    length: int | None = None
    wait: float = 0.0
    drip: float = 0.0


def completion(answer: str, logprobs: list[Any] | None = None, sent: int = 10, answered: int = 2) -> Said:
    """A chat completion."""
    choice: dict[str, Any] = {"message": {"role": "assistant", "content": answer}, "finish_reason": "stop"}
    if logprobs is not None:
        choice["logprobs"] = {"content": [{"token": "x", "logprob": one} for one in logprobs]}
    usage = {"prompt_tokens": sent, "completion_tokens": answered, "total_tokens": sent + answered}
    return Said(json.dumps({"choices": [choice], "usage": usage}).encode())


def text_of(body: dict[str, Any]) -> str:
    """Text of a request's only message."""
    content = body["messages"][0]["content"]
    return content if isinstance(content, str) else next(part["text"] for part in content if part["type"] == "text")


Act = Callable[[int, dict[str, Any]], Said]
"""Number of a request, from 1, and its JSON, to what the server does."""


@dataclass
class Server:
    """A running server.

    Attributes:
        bodies: JSON of the requests, in order.
        headers: Their headers.
        most: Requests that were in flight at once.
    """

    url: str
    bodies: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    times: list[float] = field(default_factory=list)
    most: int = 0
    now: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)


@contextmanager
def serving(act: Act, port: int = 0) -> Iterator[Server]:
    """Serve in threads of this process."""
    server = Server("")

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            with server.lock:
                server.bodies.append(body)
                server.headers.append({name.lower(): value for name, value in self.headers.items()})
                server.times.append(time.monotonic())
                server.now += 1
                server.most = max(server.most, server.now)
                number = len(server.bodies)
            try:
                said = act(number, body)
                time.sleep(said.wait)
            finally:
                with server.lock:
                    server.now -= 1
            try:
                self._send(said)
            except OSError:  # the client has left
                self.close_connection = True

        def _send(self, said: Said) -> None:
            self.send_response(said.status)
            self.send_header("content-type", said.kind)
            self.send_header("content-length", str(len(said.body) if said.length is None else said.length))
            for name, value in said.headers.items():
                self.send_header(name, value)
            self.end_headers()
            for part in [bytes([one]) for one in said.body] if said.drip else [said.body]:
                self.wfile.write(part)
                time.sleep(said.drip)
            if said.length is not None:
                self.close_connection = True

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", port), Handler) as http:
        http.daemon_threads = True
        server.url = f"http://127.0.0.1:{http.server_address[1]}/v1"
        thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        thread.start()
        yield server
        http.shutdown()


def plain(body: dict[str, Any]) -> Said:
    """A deterministic answer, with tokens that grow with the text and the picture."""
    text, whole = text_of(body), json.dumps(body["messages"]).encode()
    answer = hashlib.sha256(whole).hexdigest()[: 4 + len(text) % 5]
    return completion(answer, sent=20 + len(text) // 4 + len(whole) // 100, answered=1 + len(answer) // 2)


def main() -> None:
    """Serve until the process is killed."""
    port, log, upstream = int(sys.argv[1]), Path(sys.argv[2]), sys.argv[3] if len(sys.argv) > 3 else None
    lock = threading.Lock()

    def write(*words: object) -> None:
        with lock, log.open("a") as file:
            file.write(" ".join(map(str, words)) + "\n")

    def act(_: int, body: dict[str, Any]) -> Said:
        name = hashlib.sha256(json.dumps([text_of(body), body["messages"]], sort_keys=True).encode()).hexdigest()
        write("asked", name)
        said = plain(body) if upstream is None else _forwarded(upstream, body)
        usage = json.loads(said.body)["usage"] if said.status == 200 else {}
        write("answered" if usage else f"failed-{said.status}", name, usage.get("total_tokens", 0))
        if upstream is None:
            said.wait = 0.01
        return said

    with serving(act, port):
        threading.Event().wait()


def _forwarded(upstream: str, body: dict[str, Any]) -> Said:
    import httpx

    try:
        reply = httpx.post(f"{upstream}/chat/completions", json=body, timeout=120, trust_env=False)
    except httpx.HTTPError:
        return Said(b"{}", 502)
    return Said(reply.content, reply.status_code, reply.headers.get("content-type", JSON))


if __name__ == "__main__":
    main()
