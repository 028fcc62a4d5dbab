"""Clients of a federation, their units of privacy (providers, mostly), and the rows of each unit's queries."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from pfl_audit.documents.document import Query
from pfl_audit.errors import AuditError
from pfl_audit.privacy.units import PrivacyUnit


@dataclass(frozen=True)
class Client:
    """One party of the federation.

    Attributes:
        providers: For each of its providers, or other units of privacy, in the order of their names, the rows of its
            queries.
        tags: For each of them a number that its name alone decides: random draws depend on it, so that adding or
            removing a unit changes no random draw of another one.
    """

    number: int
    providers: tuple[tuple[int, ...], ...]
    tags: tuple[int, ...] = ()


def unit_name(query: Query, unit: PrivacyUnit) -> str:
    """Name of the unit of privacy that a question belongs to; the pages of a document are one."""
    return {"provider": query.document.provider, "document": query.document.file, "example": query.id}[unit]


def partition(queries: Sequence[Query], *, disjoint: bool = True, unit: PrivacyUnit = "provider") -> tuple[Client, ...]:
    """Partition queries by client and unit of privacy.

    Args:
        queries: To train on; each document says whose it is.
        disjoint: Whether a unit must belong to one client, as its protection needs.
        unit: Unit of privacy.

    Returns:
        Clients in the order of their numbers.

    Raises:
        AuditError: A document belongs to no client, a unit to two, or a client has nothing.
    """
    held = _sorted(queries, unit, disjoint=disjoint)
    empty = next(number for number in range(len(held) + 1) if number not in held)
    if empty < max(held):
        raise AuditError(f"client {empty} has no training document", "Number the clients without gaps, or fill them")
    return tuple(_client(number, held[number]) for number in sorted(held))


def own_part(
    queries: Sequence[Query], number: int, *, disjoint: bool = True, unit: PrivacyUnit = "provider"
) -> Client | None:
    """The part of one client, or None; the other clients' data are not needed.

    Raises:
        AuditError: A document belongs to no client, or a unit to two.
    """
    held = _sorted(queries, unit, disjoint=disjoint)
    return _client(number, held[number]) if number in held else None


def _client(number: int, held: dict[str, list[int]]) -> Client:
    names = sorted(held)
    tags = (int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big") >> 1 for name in names)
    return Client(number, tuple(tuple(held[name]) for name in names), tuple(tags))


def _sorted(queries: Sequence[Query], unit: PrivacyUnit, *, disjoint: bool) -> dict[int, dict[str, list[int]]]:
    """Client, then unit, to rows."""
    held: dict[int, dict[str, list[int]]] = {}
    owner: dict[str, int] = {}
    for row, query in enumerate(queries):
        client, name = query.document.client, unit_name(query, unit)
        if client is None:
            raise AuditError(
                f"the document of training question {row + 1} belongs to no client",
                "Make clients with 'pfl-audit data partition', or train --mode central or central-dp",
            )
        if owner.setdefault(name, client) != client and disjoint:
            raise AuditError(
                f"the {unit} of training question {row + 1} is in client {owner[name]} and in {client}",
                "Make clients with 'pfl-audit data partition --by provider': its protection is counted once",
            )
        held.setdefault(client, {}).setdefault(name, []).append(row)
    return held


def merged(queries: Sequence[Query], unit: PrivacyUnit = "provider") -> tuple[Client, ...]:
    """One client that holds every unit of privacy, as in central training."""
    rows: dict[str, list[int]] = {}
    for row, query in enumerate(queries):
        rows.setdefault(unit_name(query, unit), []).append(row)
    return (_client(0, rows),)
