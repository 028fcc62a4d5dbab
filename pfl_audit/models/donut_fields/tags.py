"""Tags of a Donut that prints fields: special tokens ``<s_key>`` and ``</s_key>``, and the task that it begins with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from pfl_audit.models.field_keys import is_key, normal_key

SEPARATOR: Final = "<sep/>"
"""Separates the values of a repeated field, and the groups of a repeated group."""
PRETRAINING: Final = frozenset({"<s_iitcdip>", "<s_synthdog>"})
"""Tasks of Donut's pre-training, which every released tokenizer keeps."""
_OPEN, _CLOSE, _END = "<s_", "</s_", ">"


@dataclass(frozen=True)
class FieldTags:
    """Tags of a checkpoint.

    Attributes:
        task: Token that every sequence begins with, such as ``<s_cord-v2>``.
        opens: Id of each opening tag, by key.
        closes: Id of each closing tag, by key; the same keys.
        separator: Id of ``<sep/>``, or None.
        categories: Text of each token that is a value, such as ``<yes/>``, by id.
    """

    task: str
    opens: Mapping[str, int]
    closes: Mapping[str, int]
    separator: int | None
    categories: Mapping[int, str]

    def parts(self, key: str) -> tuple[str, ...] | None:
        """Keys of the tags around the field of a query's key, outermost first; None if a tag is missing."""
        normal, own = normal_key(key), self._keys
        if normal in own:
            return (own[normal],)
        parts = normal.split(".")
        return tuple(own[part] for part in parts) if all(part in own for part in parts) else None

    @cached_property
    def _keys(self) -> dict[str, str]:
        return {normal_key(name): name for name in self.opens}


def field_tags(specials: Mapping[str, int], settings: Sequence[Mapping[str, Any]]) -> FieldTags | None:
    """Find the tags among the special tokens of a tokenizer.

    Args:
        specials: Special token to id.
        settings: ``config.json`` and ``generation_config.json``; the first ``decoder_start_token_id`` counts.

    Returns:
        None if no key has both tags, or the task cannot be determined: ``decoder_start_token_id`` is the id of no
        special token, and not exactly one token ``<s_...>`` without a closing tag is left beside those of the
        pre-training.
    """
    inner = {name[len(_OPEN) : -1] for name in specials if name.startswith(_OPEN) and name.endswith(_END)}
    keys = {key for key in inner if is_key(key) and f"{_CLOSE}{key}{_END}" in specials}
    alone = {f"{_OPEN}{key}{_END}" for key in inner - keys}
    task = _task(specials, alone, settings)
    if not keys or task is None:
        return None
    return FieldTags(
        task,
        {key: specials[f"{_OPEN}{key}{_END}"] for key in keys},
        {key: specials[f"{_CLOSE}{key}{_END}"] for key in keys},
        specials.get(SEPARATOR),
        {
            token: name[1:-2]
            for name, token in specials.items()
            if name.startswith("<") and name.endswith("/>") and name != SEPARATOR
        },
    )


def _task(specials: Mapping[str, int], alone: set[str], settings: Sequence[Mapping[str, Any]]) -> str | None:
    """The token that sequences begin with: the start token if it is a task, else the only task, else the start."""
    names = {token: name for name, token in specials.items()}
    starts = [one.get("decoder_start_token_id") for one in settings]
    start = next((names[one] for one in starts if isinstance(one, int) and one in names), None)
    tasks = alone - PRETRAINING
    if start in alone:
        return start
    return tasks.pop() if len(tasks) == 1 else start
