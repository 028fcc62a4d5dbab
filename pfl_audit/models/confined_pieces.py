"""Tokenizers of checkpoints, which run in a locked child process: a model of SentencePiece, or a ``tokenizer.json``."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Callable, Sequence
from functools import lru_cache
from math import inf
from typing import Any, Literal

from pfl_audit.errors import AuditError
from pfl_audit.models.sentencepiece_file import MOST_PIECES, UnfitTokenizerError
from pfl_audit.sandbox import RefusedError, Sandbox, SandboxError

_MEMORY = 2 << 30
_SECONDS = 20
"""Of CPU to open one, and for all texts beside what follows."""
_SECONDS_A_TEXT = 1.0
_SECONDS_A_LETTER = 1e-4
"""A hundred times the need."""
_MOST_OUT = 64
"""Pieces that a letter may become, and letters that a piece may become."""
_ROOM = {"sentencepiece": (64, 4 << 20), "file": (256, 1 << 20), "unigram": (inf, 0)}
"""Largest size of a kind of content: for each piece, and beside the pieces, such as for tables of rules."""
_PROBE = "\n"

Kind = Literal["sentencepiece", "file", "unigram"]


class Pieces:
    """Text to pieces and back.

    Args:
        kind: "sentencepiece" for the bytes of a ``spiece.model``, "file" for the text of a ``tokenizer.json``, and
            "unigram", cut as in XLM-R, for pieces with their scores, the id of the unknown piece, and whether
            SentencePiece's ``nmt_nfkc`` goes before.
        content: Content of this kind; of "unigram" as JSON.
        where: The file, for messages.
        names: Pieces whose ids are asked for.

    Attributes:
        size: Number of pieces.
        ids: Ids of those of ``names`` that it has, and of SentencePiece's control symbols.
        special: Names of the pieces 0, 1 and 2; of SentencePiece the ids of padding, end and unknown.

    Raises:
        UnfitTokenizerError: It cannot be opened.
    """

    def __init__(self, kind: Kind, content: bytes | str, where: str, names: Sequence[str] = ()) -> None:
        self._where = where
        self._child = _child(kind, content)
        a_piece, beside = _ROOM[kind]
        try:
            match self._child.call("describe", list(names)):
                case {"size": int() as size, "ids": dict() as ids, "special": [_, _, _] as special}:
                    self.size, self.ids, self.special = size, ids, tuple(special)
                case _:
                    raise SandboxError("ended")
            if not (0 <= size <= MOST_PIECES and len(content) <= a_piece * size + beside):
                raise SandboxError("refused", "it has too many pieces, or is too large for those that it has")
            if not self._are_ids(list(ids.values())):
                raise SandboxError("ended")
        except SandboxError as error:
            self._child.close()
            raise UnfitTokenizerError(error.reason()) from error

    def encode(self, texts: Sequence[str]) -> list[tuple[int, ...]]:
        """Ids of texts; a call for many texts takes little longer than one for one."""
        return [tuple(ids) for ids in self._ask("encode", texts, self._are_ids)]

    def decode(self, ids: Sequence[int]) -> str:
        """Text of ids."""
        return str(self._ask("decode", [ids], lambda text: isinstance(text, str))[0])

    def _are_ids(self, found: object) -> bool:
        return isinstance(found, list) and all(type(one) is int and 0 <= one < self.size for one in found)

    def _ask(self, what: str, values: Sequence[object], fits: Callable[[object], bool]) -> list[Any]:
        """Answers of the child to each of the values, checked: it may have been taken over."""
        try:
            found = self._child.call(what, values)
            if not (isinstance(found, list) and len(found) == len(values) and all(map(fits, found))):
                raise SandboxError("ended")
            return found
        except SandboxError as error:
            why = error.text if error.kind == "refused" else "they crash, or take too much time or memory"
            raise AuditError(
                f"{self._where} has rules of its own that cannot be used: {why}",
                "Give spiece.model in its place, or a tokenizer.json with T5's rules",
            ) from error


@lru_cache(maxsize=8)
def _child(kind: Kind, content: bytes | str) -> Sandbox:
    """The child of a tokenizer, which all models of a process share that have the same."""
    return Sandbox(f"{__name__}:answer", memory=_MEMORY, seconds=_SECONDS, first=("open", [kind, content]))


class _SentencePieces:
    def __init__(self, content: bytes) -> None:
        from sentencepiece import SentencePieceProcessor

        self._model: Any = SentencePieceProcessor()
        self._model.LoadFromSerializedProto(content)

    def describe(self, names: list[str]) -> dict[str, Any]:
        model = self._model
        size = int(model.GetPieceSize())
        ids = {name: token for name in names if model.IdToPiece(token := model.PieceToId(name)) == name}
        control = {model.IdToPiece(token): token for token in range(size) if model.IsControl(token)}
        special = [model.pad_id(), model.eos_id(), model.unk_id()]
        return {"size": size, "ids": control | ids, "special": special}

    def encode(self, text: str) -> list[int]:
        return list(self._model.EncodeAsIds(text))

    def decode(self, ids: list[int]) -> str:
        return str(self._model.DecodeIds(ids))


class _FastPieces:
    def __init__(self, content: str) -> None:
        from tokenizers import Tokenizer

        self._model: Any = Tokenizer.from_str(content)
        self._model.encode_special_tokens = True
        self.encode(_PROBE)  # the library does not check a table before it is used

    def describe(self, names: list[str]) -> dict[str, Any]:
        known = self._model.get_vocab()
        ids = {name: known[name] for name in names if name in known}
        special = [self._model.id_to_token(token) for token in range(3)]
        return {"size": 1 + max(known.values(), default=-1), "ids": ids, "special": special}

    def encode(self, text: str) -> list[int]:
        return list(self._model.encode(text, add_special_tokens=False).ids)

    def decode(self, ids: list[int]) -> str:
        return str(self._model.decode(ids, skip_special_tokens=True))


class _Unigram:
    def __init__(self, content: str) -> None:
        from sentencepiece import SentencePieceNormalizer
        from tokenizers import Tokenizer, models, pre_tokenizers

        vocabulary, unknown, normal = json.loads(content)
        self._names = [name for name, _ in vocabulary]
        self._model: Any = Tokenizer(
            models.Unigram([(name, score) for name, score in vocabulary], unknown, byte_fallback=False)
        )
        self._model.pre_tokenizer = pre_tokenizers.Sequence(
            [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace(_BLANK, prepend_scheme="always")]
        )
        self._normalizer = (
            SentencePieceNormalizer(
                rule_name="nmt_nfkc", add_dummy_prefix=False, escape_whitespaces=False, remove_extra_whitespaces=True
            )
            if normal
            else None
        )

    def describe(self, names: list[str]) -> dict[str, Any]:
        ids = {name: token for token, name in enumerate(self._names) if name in names}
        return {"size": len(self._names), "ids": ids, "special": self._names[:3]}

    def encode(self, text: str) -> list[int]:
        normal = self._normalizer.Normalize(text) if self._normalizer else text
        return list(self._model.encode(normal, add_special_tokens=False).ids)

    def decode(self, ids: list[int]) -> str:
        return "".join(self._names[token] for token in ids if token < len(self._names)).replace(_BLANK, " ")


_BLANK = "\u2581"
_KINDS = {"sentencepiece": _SentencePieces, "file": _FastPieces, "unigram": _Unigram}
_opened: list[Any] = []
_letters = [0]


def answer(what: str, value: Any) -> Any:
    """The child's side: open a tokenizer, and answer what is asked of it.

    Raises:
        RefusedError: It gives out more than a text may become, or takes too long.
    """
    if what == "open":
        kind, content = value
        _opened.append(_KINDS[kind](content))
        return None
    if what == "describe":
        return _opened[0].describe(value)
    work = getattr(_opened[0], what)
    out = []
    for one in value:
        _letters[0] += len(one)
        signal.setitimer(signal.ITIMER_VIRTUAL, _SECONDS_A_TEXT)  # ends the process
        out.append(work(one))
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        if len(out[-1]) > _MOST_OUT * (len(one) + 16):
            raise RefusedError("they make too much of a text")
    if time.process_time() > _SECONDS + _SECONDS_A_LETTER * _letters[0]:
        raise RefusedError("they take too long")
    return out
