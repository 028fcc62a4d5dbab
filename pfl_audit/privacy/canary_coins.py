"""Coins of the canaries, with a commitment that is published before the run."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from pfl_audit.errors import AuditError, UsageError

MOST = 1 << 20
"""Largest number of canaries."""
RECORD = "canaries.json"
"""File of a checkpoint: the commitment before the first round, and the coins after the last one."""
_SALT_BYTES = 32
_LONGEST_NONCE = 200


@dataclass(frozen=True)
class Manifest:
    """What is fixed before the first round.

    Attributes:
        nonce: Text of the verifier, which shows that the coins are not older.
        guesses: Number of guesses.
        salt: Hexadecimal; hides the coins until they are revealed, and decides the directions.
        canaries: Number of canaries.
        bits: Coins, 8 a byte, hexadecimal; canary i is included if bit i is 1.
        pointed: Whether the value of a document canary is a word of its page, for a model that points to words. Not in
            the hash, because the bound is valid whatever value is asked for.
    """

    nonce: str
    guesses: int
    salt: str
    canaries: int
    bits: str
    pointed: bool = False

    @classmethod
    def draw(cls, canaries: int, guesses: int, nonce: str = "", *, pointed: bool = False) -> Manifest:
        """Draw coins and salt from the secure generator of the operating system.

        Raises:
            UsageError: A number is out of range, or the nonce is not one short line.
        """
        check_numbers(canaries, guesses, nonce)
        coins = np.unpackbits(np.frombuffer(secrets.token_bytes(-(-canaries // 8)), dtype=np.uint8), count=canaries)
        return cls(
            nonce, guesses, secrets.token_hex(_SALT_BYTES), canaries, np.packbits(coins).tobytes().hex(), pointed
        )

    @cached_property
    def coins(self) -> NDArray[np.bool_]:
        """Which canaries are included, bool (canaries,)."""
        packed = np.frombuffer(bytes.fromhex(self.bits), dtype=np.uint8)
        return np.unpackbits(packed, count=self.canaries).astype(np.bool_)

    @property
    def commitment(self) -> str:
        """SHA-256 of four lines: nonce; numbers of canaries and guesses; salt; coins."""
        text = f"{self.nonce}\n{self.canaries} {self.guesses}\n{self.salt}\n{self.bits}\n"
        return hashlib.sha256(text.encode()).hexdigest()

    def public(self) -> dict[str, str | int]:
        """What is published before the first round."""
        names = {"commitment": self.commitment, "nonce": self.nonce}
        kind = {"pointed": True} if self.pointed else {}
        return {**names, "canaries": self.canaries, "guesses": self.guesses, **kind}

    def revealed(self) -> dict[str, str | int]:
        """What is published after the last round."""
        return {**self.public(), "salt": self.salt, "coins": self.bits}

    @classmethod
    def check(cls, revealed: Mapping[str, object], commitment: str) -> Manifest:
        """The manifest of a report, held against the commitment that was published before the run.

        Raises:
            AuditError: They do not belong together, or cannot be.
        """
        texts = [revealed.get(name) for name in ("nonce", "salt", "coins")]
        numbers = [revealed.get(name) for name in ("canaries", "guesses")]
        match texts, numbers:
            case [str(nonce), str(salt), str(bits)], [int(canaries), int(guesses)]:
                found = cls(nonce, guesses, salt, canaries, bits, revealed.get("pointed") is True)
                if found._can_be() and found.commitment == commitment:
                    return found
        raise AuditError("the coins of the canaries do not have the hash of the commitment", "Repeat the run")

    def _can_be(self) -> bool:
        try:
            check_numbers(self.canaries, self.guesses, self.nonce)
            salt, bits = bytes.fromhex(self.salt), bytes.fromhex(self.bits)
        except (UsageError, ValueError):
            return False
        plain = (salt.hex(), bits.hex()) == (self.salt, self.bits)  # bytes.fromhex skips spaces
        return plain and len(salt) == _SALT_BYTES and len(bits) == -(-self.canaries // 8)


def check_numbers(canaries: int, guesses: int, nonce: str) -> None:
    """Raise UsageError if a number is out of range, or the nonce is not one short line."""
    if not 2 <= canaries <= MOST:
        raise UsageError(f"{canaries} canaries cannot be drawn", f"Give a number from 2 to {MOST}")
    if not 1 <= guesses <= canaries:
        raise UsageError(f"{guesses} guesses of {canaries} canaries cannot be made", f"Give 1 to {canaries}")
    if len(nonce) > _LONGEST_NONCE or not nonce.isprintable():
        raise UsageError("the nonce is not one short line", f"Give at most {_LONGEST_NONCE} printable characters")
