"""One HTTP request to an endpoint, with bounds on size and time, and no way to another host."""

from __future__ import annotations

import json
import re
import ssl
import time
from typing import TYPE_CHECKING, Any, Final

from pfl_audit.errors import EndpointError, UsageError
from pfl_audit.models.endpoint.address import Address, Key
from pfl_audit.models.endpoint.pace import LONGEST_WAIT, retry_after
from pfl_audit.models.endpoint.reply import Reply, parse_reply
from pfl_audit.version import __version__

if TYPE_CHECKING:
    import httpx

MAX_REPLY: Final = 1 << 20
"""Bytes of a reply."""
_CONNECT_SECONDS: Final = 15.0
_REFUSED: Final = frozenset({400, 413, 415, 422})
_AGAIN: Final = frozenset({408, 409, 425, 429})
_CODE = re.compile(r"[a-z_]{2,40}")
_REMEDIES: Final = {
    401: "Check the key (--endpoint-key-env)",
    402: "Check the account of the endpoint",
    403: "Check the key (--endpoint-key-env) and what it allows",
    404: "Check --endpoint and --endpoint-model",
    405: "Check --endpoint",
}


class RefusedError(Exception):
    """The endpoint takes the request for wrong; the text is the status.

    Args:
        status: Status with the error's code, to print.
    """


class AgainError(Exception):
    """The request may succeed later.

    Args:
        reason: What happened, to print.
        wait: Seconds that the endpoint asks to wait, or None.
        billed: Whether the endpoint may have computed an answer.
        busy: Whether the endpoint limits the rate.
    """

    def __init__(self, reason: str, *, wait: float | None = None, billed: bool = False, busy: bool = False) -> None:
        super().__init__(reason)
        self.wait, self.billed, self.busy = wait, billed, busy


class Exchange:
    """Connections to one endpoint.

    No proxy, no ``.netrc`` and no redirect: requests go to the address that was given, or nowhere.

    Args:
        seconds: Time of a request at most, reply included.

    Raises:
        UsageError: httpx is not installed.
    """

    def __init__(self, address: Address, key: Key, *, seconds: float, connections: int) -> None:
        try:
            import httpx
        except ImportError as error:
            raise UsageError("an endpoint needs httpx", "pip install 'pfl-audit[endpoint]'") from error
        from pfl_audit.models.endpoint.deadline import Deadline, DeadlineTransport

        self._deadline = Deadline()
        context = ssl.create_default_context() if address.url.startswith("https:") else None  # slow to make
        self._address, self._seconds = address, seconds
        self._faults = (httpx.HTTPError, httpx.StreamError, ssl.SSLError)
        self._before = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)
        self._client = httpx.Client(
            headers={
                "User-Agent": f"pfl-audit/{__version__}",
                "Accept": "application/json",
                "Accept-Encoding": "identity",
                **key.headers,
            },
            timeout=httpx.Timeout(seconds, connect=min(seconds, _CONNECT_SECONDS)),
            transport=DeadlineTransport(context, connections, self._deadline),
            follow_redirects=False,
            trust_env=False,
        )

    def post(self, body: dict[str, Any]) -> Reply:
        """Send one request.

        Raises:
            RefusedError: The endpoint takes it for wrong.
            AgainError: It failed, and may succeed later.
            EndpointError: It failed, and so would every other one.
        """
        self._deadline.at = time.monotonic() + self._seconds
        try:
            with self._client.stream("POST", self._address.url, json=body) as response:
                content = self._read(response)
        except self._before as error:
            raise AgainError(f"no connection ({type(error).__name__})") from error
        except self._faults as error:
            raise AgainError(f"the connection failed ({type(error).__name__})", billed=True) from error
        if response.status_code != 200:
            raise self._failed(response, content)
        kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != "application/json" and not kind.endswith("+json"):
            raise AgainError("a reply that is not JSON by its content type", billed=True)
        try:
            return parse_reply(content)
        except ValueError as error:
            raise AgainError(str(error), billed=True) from error

    def close(self) -> None:
        """Close all connections."""
        self._client.close()

    def _read(self, response: httpx.Response) -> bytes:
        if response.headers.get("content-encoding", "identity").lower() != "identity":
            raise AgainError("a compressed reply that was not asked for", billed=True)
        content = bytearray()
        for part in response.iter_raw():
            content += part
            if len(content) > MAX_REPLY:
                raise AgainError(f"a reply of more than {MAX_REPLY:,} bytes", billed=True)
        return bytes(content)

    def _failed(self, response: httpx.Response, content: bytes) -> Exception:
        """The exception for a status; of the content no more than a code of small letters is used."""
        status, host, code = response.status_code, self._address.host, _code(content)
        what = f"HTTP {status}" + (f", {code}" if code else "")
        if status in _REFUSED:
            return RefusedError(what)
        if code == "insufficient_quota":
            return EndpointError(f"{host} has no quota left for this key", _REMEDIES[402])
        if status in _AGAIN or status >= 500:
            wait = retry_after(response.headers.get("retry-after"))
            if wait is not None and wait > LONGEST_WAIT:
                return EndpointError(
                    f"{host} asks to wait {wait:,.0f} s ({what}); the answers are kept", "Repeat the command then"
                )
            return AgainError(what, wait=wait, busy=status == 429)
        if 300 <= status < 400:
            return EndpointError(
                f"{host} redirects elsewhere ({what}), which is not followed", "Give the final address"
            )
        return EndpointError(f"{host} refuses requests ({what})", _REMEDIES.get(status, "Check --endpoint"))


def _code(content: bytes) -> str:
    """The code of an error, such as ``model_not_found``; empty unless it is one short name."""
    try:
        error = json.loads(content)["error"]
        code = error.get("code") or error.get("type")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return ""
    return code if isinstance(code, str) and _CODE.fullmatch(code) else ""
