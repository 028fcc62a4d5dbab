"""Detection of providers that two clients hold, without names.

The protection of a provider is counted once, so it must stand with one client. The clients agree on a
secret that the server does not have, and each sends HMACs of its providers' names under it: the server
sees that two are equal, and cannot test a guessed name. A client that gives it the secret can.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable, Mapping

from pfl_audit.errors import AuditError
from pfl_audit.provider_identity import provider_identity


def provider_marks(secret: str, providers: Iterable[str]) -> list[str]:
    """One mark a provider, in an order that is independent of the names; none without a secret."""
    if not secret:
        return []
    names = {provider_identity(name).encode() for name in providers}
    return sorted(hmac.new(secret.encode(), name, hashlib.sha256).hexdigest() for name in names)


def require_disjoint(sent: Mapping[int, Iterable[str]]) -> None:
    """Check that no mark is there twice.

    Args:
        sent: Client to its marks.

    Raises:
        AuditError: Two clients have the same provider, or some sent marks and some did not.
    """
    owner: dict[str, int] = {}
    for client, its in sent.items():
        if not its and any(sent.values()):
            raise AuditError(f"client {client} has no roll, and others have", "Give all SuperNodes the same roll")
        for mark in its:
            if owner.setdefault(mark, client) != client:
                raise AuditError(
                    f"client {owner[mark]} and client {client} have the same provider",
                    "Move all its documents to one client: its protection is counted once",
                )
