"""Runs a ``tokenizer.json`` with unknown rules in a child process with limits of memory and time."""

from __future__ import annotations

import signal
from typing import Any

from pfl_audit.errors import AuditError
from pfl_audit.sandbox import RefusedError, Sandbox, SandboxError

_MEMORY = 2 << 30
_SECONDS = 20
"""Of CPU, for everything that a model's tokenizer does in an audit; a known tokenizer has no such limit."""
_SECONDS_A_TEXT = 1.0
_MOST_OUT = 64
"""Pieces that a letter may become, and letters that a piece may become."""


class FastPieces:
    """Pieces of a ``tokenizer.json``, which runs in this process.

    Args:
        content: Content of the file.
    """

    def __init__(self, content: str) -> None:
        from tokenizers import Tokenizer

        self._model: Any = Tokenizer.from_str(content)
        self._model.encode_special_tokens = True
        self.size = 1 + max(self._model.get_vocab().values(), default=-1)

    def encode(self, text: str) -> list[int]:
        """Ids of a text."""
        return list(self._model.encode(text, add_special_tokens=False).ids)

    def decode(self, ids: list[int]) -> str:
        """Text of ids."""
        return str(self._model.decode(ids, skip_special_tokens=True))

    def name(self, token: int) -> str | None:
        """Name of a piece."""
        found = self._model.id_to_token(token)
        return None if found is None else str(found)


class ConfinedPieces:
    """Pieces of a tokenizer that runs in a child process.

    Args:
        content: Of the ``tokenizer.json``.
        where: The file, for messages.
    """

    def __init__(self, content: str, where: str) -> None:
        self._where = where
        self._child = Sandbox(f"{__name__}:answer", memory=_MEMORY, seconds=_SECONDS)
        self.size = int(self._ask("open", content))

    def encode(self, text: str) -> list[int]:
        """Ids of a text."""
        return list(self._ask("encode", text))

    def decode(self, ids: list[int]) -> str:
        """Text of ids."""
        return str(self._ask("decode", ids))

    def name(self, token: int) -> str | None:
        """Name of a piece."""
        return self._ask("name", token)

    def _ask(self, what: str, value: object) -> Any:
        try:
            return self._child.call(what, value)
        except SandboxError as error:
            why = error.text if error.kind == "refused" else "they crash, or take too much time or memory"
            raise AuditError(
                f"{self._where} has rules of its own that cannot be used: {why}",
                "Give spiece.model in its place, or a tokenizer.json with T5's rules",
            ) from error


_opened: list[FastPieces] = []


def answer(what: str, value: Any) -> Any:
    """The child's side: open a tokenizer, and answer what is asked of it.

    Raises:
        RefusedError: It gives out more than a text may become.
    """
    signal.setitimer(signal.ITIMER_VIRTUAL, _SECONDS_A_TEXT if _opened else _SECONDS)  # ends the process
    try:
        return _answer(what, value)
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)


def _answer(what: str, value: Any) -> Any:
    if what == "open":
        _opened.append(FastPieces(value))
        return _opened[0].size
    (pieces,) = _opened
    out = getattr(pieces, what)(value)
    if what != "name" and len(out) > _MOST_OUT * (len(value) + 16):
        raise RefusedError("they make too much of a text")
    return out
