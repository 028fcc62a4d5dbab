"""Address of an endpoint and its key: what is accepted, and what may be printed of them."""

from __future__ import annotations

import ipaddress
import os
from dataclasses import dataclass, field
from urllib.parse import SplitResult, urlsplit

from pfl_audit.errors import UsageError

_CHAT = "/chat/completions"
_OPENAI = "openai.com"
OPENAI_KEY = "OPENAI_API_KEY"
_LONGEST_KEY = 8192


@dataclass(frozen=True)
class Address:
    """Where requests go.

    Attributes:
        url: Full address of the chat completions.
        host: Host with its port, as a report names it.
        place: Host and path without the scheme, for the fingerprint.
    """

    url: str
    host: str
    place: str


@dataclass(frozen=True)
class Key:
    """Secret of an endpoint; its text never appears in ``repr``.

    Attributes:
        secret: The key, or None for a server that wants none.
    """

    secret: str | None = field(default=None, repr=False)

    @property
    def headers(self) -> dict[str, str]:
        """Header of the requests."""
        return {"Authorization": f"Bearer {self.secret}"} if self.secret else {}


def read_address(text: str, *, insecure: bool = False) -> Address:
    """Read the address of an endpoint.

    Args:
        text: Address of a host, of its API (``.../v1``), or of its chat completions.
        insecure: Whether http is allowed to a host that is not this machine.

    Raises:
        UsageError: It is no http or https address, holds a user, a password or a query, or http leaves the machine.
    """
    parts = _split(text)
    host = parts.hostname or ""
    if parts.scheme == "http" and not insecure and not _is_loopback(host):
        raise UsageError(
            f"{host} is not this machine, and http would send pages and key unencrypted",
            "Use https://, or --endpoint-insecure",
        )
    path = parts.path.rstrip("/")
    if not path.endswith(_CHAT):
        path = f"{path or '/v1'}{_CHAT}"
    return Address(f"{parts.scheme}://{parts.netloc}{path}", parts.netloc, f"{parts.netloc}{path}")


def _split(text: str) -> SplitResult:
    remedy = "Write https://host/v1, with the key in an environment variable (--endpoint-key-env)"
    try:
        parts = urlsplit(text)
        valid = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        valid = False
    if not valid or not text.isascii() or not text.isprintable() or " " in text:
        raise UsageError("--endpoint is no http or https address", remedy)
    if parts.username is not None or parts.password is not None or parts.query or parts.fragment:
        raise UsageError("--endpoint holds a user, a password, a query or a fragment", remedy)
    return parts


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def read_key(name: str | None, address: Address) -> Key:
    """Read the key from the environment.

    Args:
        name: Environment variable; OPENAI_API_KEY for hosts of openai.com and none for others, if None.

    Raises:
        UsageError: The variable is not set, or holds what no header can carry.
    """
    host = urlsplit(address.url).hostname or ""
    if name is None:
        ours = host == _OPENAI or host.endswith(f".{_OPENAI}")
        secret = os.environ.get(OPENAI_KEY) if ours else None
    elif not (secret := os.environ.get(name)):
        raise UsageError("the environment variable that --endpoint-key-env names is not set", "Export it")
    if secret is not None and not (
        secret.isascii() and secret.isprintable() and secret.split() == [secret] and len(secret) <= _LONGEST_KEY
    ):
        raise UsageError("the key of the endpoint has characters that no header can carry", "Export it again")
    return Key(secret or None)
