"""A client's part of the document canaries: their numbers and the salt, from which it draws the pages itself."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from pfl_audit.privacy.canary_coins import Manifest
from pfl_audit.privacy.document_canaries import pages_trained
from pfl_audit.training.canaries import in_pairs
from pfl_audit.training.federated.flower.agreement import Agreement
from pfl_audit.training.federated.flower.refusal import RefusalError

_HEX = re.compile(r"[0-9a-f]{64}")
_REMEDY = "Keep to the app, and use the same version of pfl-audit everywhere"


@dataclass(frozen=True)
class CanaryPart:
    """What one client is given of the canaries.

    Attributes:
        salt: Hexadecimal; decides pages and values.
        commitment: SHA-256 of all coins, for the client's journal.
        numbers: Numbers of the pages that the client trains on, in the order of the canaries.
    """

    salt: str
    commitment: str
    numbers: tuple[int, ...]

    @classmethod
    def of(cls, manifest: Manifest, agreement: Agreement, client: int) -> CanaryPart:
        """The part of a client, as the server knows it: canary i is of client i modulo the number of clients."""
        trained = pages_trained(manifest, pairs=in_pairs(agreement.privacy))
        own = (number for number in trained if number % manifest.canaries % agreement.clients == client)
        return cls(manifest.salt, manifest.commitment, tuple(own))

    @classmethod
    def read(cls, values: dict[str, Any], agreement: Agreement, client: int) -> CanaryPart:
        """The part that a client is sent or has kept, which may hold anything.

        Raises:
            RefusalError: No canaries were agreed, or it cannot be a part of those that were.
        """
        if agreement.canaries is None:
            raise RefusalError("canaries are sent that were not agreed", _REMEDY)
        salt, commitment, numbers = (values.get(name) for name in ("salt", "commitment", "numbers"))
        for name, text in (("salt", salt), ("commitment", commitment)):
            if not (isinstance(text, str) and _HEX.fullmatch(text)):
                raise RefusalError(f"the {name} of the canaries is not 64 hexadecimal digits", _REMEDY)
        count, most, pairs = agreement.canaries.canaries, canaries_of(agreement, client), in_pairs(agreement.privacy)
        if not isinstance(numbers, list | tuple) or not all(type(number) is int for number in numbers):
            raise RefusalError("the numbers of its canaries are no list of integers", _REMEDY)
        if len(numbers) > most or (pairs and len(numbers) < most):
            agreed = f"{most}" if pairs else f"at most {most}"
            raise RefusalError(f"{len(numbers)} canaries are sent, and {agreed} of {count} can be its own", _REMEDY)
        if not all(0 <= number < count * (2 if pairs else 1) for number in numbers):
            raise RefusalError("a canary has a number that was not agreed", _REMEDY)
        places = {number % count for number in numbers}
        if len(places) < len(numbers):
            raise RefusalError("a canary is sent twice", _REMEDY)
        if any(place % agreement.clients != client for place in places):
            raise RefusalError("a canary of another client is sent", _REMEDY)
        return cls(str(salt), str(commitment), tuple(sorted(numbers, key=lambda number: number % count)))

    def to_dict(self) -> dict[str, Any]:
        """As scalars and a list."""
        return {"salt": self.salt, "commitment": self.commitment, "numbers": list(self.numbers)}


def canaries_of(agreement: Agreement, client: int) -> int:
    """Most canaries that a client trains on, which is known before coins are drawn; with pairs their number."""
    return len(range(client, agreement.canaries.canaries, agreement.clients)) if agreement.canaries else 0
