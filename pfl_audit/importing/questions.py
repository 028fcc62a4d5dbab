"""Question templates of each key, in a TOML file that a user can edit."""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from pfl_audit.documents.keys import FRAMES, NAMES
from pfl_audit.documents.record_validation import MAX_QUESTION
from pfl_audit.errors import AuditError
from pfl_audit.inputs import MIB, read_text

_EXTRA: Final = {"iban": ("the IBAN", "the bank account number")}
_MOST = 1_000
_HEAD: Final = """\
# Questions that are asked about a key: each frame with each name of the key in place of {}.
# A key without a name here is asked for by its own name: "net_weight" by "the net weight".
"""


@dataclass(frozen=True)
class Questions:
    """Question templates.

    Attributes:
        frames: Questions with {} in place of the name of a key.
        names: Key to its names.
    """

    frames: tuple[str, ...]
    names: Mapping[str, Sequence[str]]

    def of(self, key: str) -> tuple[str, ...]:
        """All questions about a key."""
        names = self.names.get(key) or (f"the {' '.join(key.replace('_', ' ').replace('.', ' ').split())}",)
        return tuple(frame.replace("{}", name) for frame in self.frames for name in names)

    def draw(self, key: str, page: str, seed: int) -> str:
        """A question about a key, drawn for each page by itself, so that no page changes those of others."""
        content = json.dumps([seed, page, key]).encode()
        rng = np.random.default_rng(int.from_bytes(hashlib.sha256(content).digest()[:8], "big"))
        choices = self.of(key)
        return choices[int(rng.integers(len(choices)))]

    def to_toml(self) -> str:
        """The templates as a file to edit."""
        frames = "".join(f"    {_quoted(frame)},\n" for frame in self.frames)
        names = "".join(f"{_quoted(key)} = [{', '.join(map(_quoted, names))}]\n" for key, names in self.names.items())
        return f"{_HEAD}frames = [\n{frames}]\n\n[names]\n{names}"


def default_questions() -> Questions:
    """The English templates of this package."""
    return Questions(FRAMES, {**NAMES, **_EXTRA})


def read_questions(path: Path) -> Questions:
    """Read templates from a TOML file.

    Raises:
        UsageError: The file does not exist.
        AuditError: The file is not of this form.
    """
    try:
        found = tomllib.loads(read_text(path, limit=MIB))
    except (ValueError, RecursionError) as error:
        other = "it is nested too deeply" if isinstance(error, RecursionError) else "a number in it is too long"
        line = str(error).rpartition("(")[2].rstrip(")") if "(at" in str(error) else other
        raise AuditError(f"{path} is not valid TOML ({line})", "Correct it") from error
    default = default_questions()
    frames, names = found.pop("frames", list(default.frames)), found.pop("names", dict(default.names))
    if found:
        raise AuditError(f"{path} has the unknown key '{next(iter(found))}'", "Keep 'frames' and the table 'names'")
    if not _are_texts(frames) or not all(frame.count("{}") == 1 for frame in frames):
        raise AuditError(f"{path}: frames are not a list of questions, each with one {{}}", "Correct frames")
    if not isinstance(names, dict) or len(names) > _MOST or not all(map(_are_texts, names.values())):
        raise AuditError(f"{path}: the names of a key are not a list of texts", "Correct [names]")
    longest = max(map(len, frames)) + max((len(name) for key in names.values() for name in key), default=0)
    if longest > MAX_QUESTION:
        raise AuditError(f"{path}: a question has more than {MAX_QUESTION:,} letters", "Shorten it")
    return Questions(tuple(frames), {key: tuple(value) for key, value in names.items()})


def _are_texts(values: object) -> bool:
    return (
        isinstance(values, list | tuple)
        and 0 < len(values) <= _MOST
        and all(isinstance(value, str) and value.strip() and value.isprintable() for value in values)
    )


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
