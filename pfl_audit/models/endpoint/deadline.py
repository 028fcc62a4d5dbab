"""Connections whose reads and writes together end at a deadline; timeouts of httpx begin again with every byte."""

from __future__ import annotations

import ssl
import threading
import time
from collections.abc import Iterable
from typing import Any, Final

import httpcore
import httpx

_CHUNK: Final = 16 << 10
"""Bytes that are written under one timeout."""


class Deadline(threading.local):
    """Time at which the request of a thread ends.

    Attributes:
        at: Seconds of ``time.monotonic``.
    """

    at = float("inf")

    def left(self, timeout: float | None) -> float:
        """Seconds that an operation may take, at most ``timeout``.

        Raises:
            httpcore.ReadTimeout: None are left.
        """
        left = self.at - time.monotonic()
        if left <= 0:
            raise httpcore.ReadTimeout
        return left if timeout is None else min(left, timeout)


class DeadlineTransport(httpx.HTTPTransport):
    """httpx's own transport over connections that respect a deadline.

    Args:
        context: TLS context; http uses none.
        connections: Connections at once.
        deadline: Read whenever bytes are read or written.
    """

    def __init__(self, context: ssl.SSLContext | None, connections: int, deadline: Deadline) -> None:
        super().__init__(verify=context or False, trust_env=False)
        self._pool = httpcore.ConnectionPool(context, max_connections=connections, network_backend=_Backend(deadline))


class _Backend(httpcore.NetworkBackend):
    def __init__(self, deadline: Deadline) -> None:
        self._own, self._deadline = httpcore.SyncBackend(), deadline

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.NetworkStream:
        found = self._own.connect_tcp(host, port, self._deadline.left(timeout), local_address, socket_options)
        return _Stream(found, self._deadline)


class _Stream(httpcore.NetworkStream):
    def __init__(self, own: httpcore.NetworkStream, deadline: Deadline) -> None:
        self._own, self._deadline = own, deadline

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._own.read(max_bytes, self._deadline.left(timeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        for at in range(0, len(buffer), _CHUNK):
            self._own.write(buffer[at : at + _CHUNK], self._deadline.left(timeout))

    def close(self) -> None:
        self._own.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        return _Stream(self._own.start_tls(ssl_context, server_hostname, self._deadline.left(timeout)), self._deadline)

    def get_extra_info(self, info: str) -> Any:
        return self._own.get_extra_info(info)
