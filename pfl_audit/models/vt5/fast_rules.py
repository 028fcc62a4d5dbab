"""Rules of a ``tokenizer.json`` that may run in this process: those of T5's files, with harmless values.

Every other rule (an expression of the file's own, a replacement that grows) runs in a child: see ``fast_child``.
"""

from __future__ import annotations

import base64
import binascii
import math
from collections.abc import Mapping
from typing import Any

from pfl_audit.models.sentencepiece_file import LONGEST_PIECE, UnfitTokenizerError, require_pieces, require_table

_MOST_RULES = 8
_MOST_ADDED = 10_000
_SWITCHES = frozenset({
    "add_prefix_space", "clean_text", "cleanup", "handle_chinese_chars", "individual_digits", "lowercase", "split",
    "strip_accents", "strip_left", "strip_right", "trim_offsets", "use_regex",
})  # fmt: skip
_PLAIN = {
    "normalizer": {"BertNormalizer", "Lowercase", "NFC", "NFD", "NFKC", "NFKD", "Nmt", "Strip", "StripAccents"},
    "pre_tokenizer": {"BertPreTokenizer", "ByteLevel", "Digits", "Whitespace", "WhitespaceSplit"},
    "decoder": {"ByteFallback", "ByteLevel", "Fuse"},
}
"""Rules of fixed work, by the part that they belong to; their settings are switches alone."""
_LISTS = {"normalizer": "normalizers", "pre_tokenizer": "pretokenizers", "decoder": "decoders"}


def runs_here(content: Mapping[str, Any]) -> bool:
    """Whether a ``tokenizer.json`` has only rules that are known, and T5's model with scores.

    Raises:
        UnfitTokenizerError: It has a table of normalisation that is damaged.
    """
    return _model(content.get("model")) and all(_rule(part, content.get(part)) for part in _LISTS)


def without_frames(content: Mapping[str, Any]) -> dict[str, Any]:
    """The same without truncation, padding and special tokens around a text, which are ours to add.

    Raises:
        UnfitTokenizerError: It has too many pieces, or one that is too long.
    """
    added = content.get("added_tokens") or []
    model = content.get("model")
    vocabulary = model.get("vocab") if isinstance(model, Mapping) else None
    if not isinstance(added, list) or not isinstance(vocabulary, list | dict):
        raise UnfitTokenizerError("it has no vocabulary")
    names = [piece[0] if isinstance(piece, list) and piece else piece for piece in vocabulary]
    names += [token.get("content") if isinstance(token, Mapping) else None for token in added]
    require_pieces(names)
    if len(added) > _MOST_ADDED:
        raise UnfitTokenizerError("it has too many added tokens")
    return {**content, "truncation": None, "padding": None, "post_processor": None}


def _model(model: Any) -> bool:
    if not isinstance(model, Mapping) or model.get("type") != "Unigram":
        return False
    vocabulary = model.get("vocab")
    return isinstance(vocabulary, list) and all(
        isinstance(piece, list) and len(piece) == 2 and isinstance(piece[1], int | float) and math.isfinite(piece[1])
        for piece in vocabulary
    )


def _rule(part: str, rule: Any) -> bool:
    """Whether a part of the file is no rule, a known one, or a short sequence of known ones."""
    if rule is None:
        return True
    if not isinstance(rule, Mapping):
        return False
    if rule.get("type") != "Sequence":
        return _known(part, rule)
    rules = rule.get(_LISTS[part])
    if not isinstance(rules, list) or len(rules) > _MOST_RULES:
        return False
    tables = sum(isinstance(one, Mapping) and one.get("type") == "Precompiled" for one in rules)
    return tables <= 1 and all(isinstance(one, Mapping) and _known(part, one) for one in rules)


def _known(part: str, rule: Mapping[str, Any]) -> bool:
    kind, settings = rule.get("type"), {name: value for name, value in rule.items() if name != "type"}
    if kind in _PLAIN[part]:
        return all(name in _SWITCHES and isinstance(value, bool | None) for name, value in settings.items())
    if kind == "Metaspace" and part != "normalizer":
        return settings.pop("replacement", None) == "▁" and all(
            (name in _SWITCHES and isinstance(value, bool))
            or (name == "prepend_scheme" and value in ("always", "first", "never"))
            or (name == "str_rep" and value == "▁")
            for name, value in settings.items()
        )
    if part == "pre_tokenizer":
        return False
    if kind == "Replace":
        return _shortens(settings)
    if kind == "Strip" and part == "decoder":
        ends = [settings.get(name) for name in ("start", "stop")]
        return settings.get("content") in ("▁", " ") and all(type(end) is int and 0 <= end <= 1 for end in ends)
    if kind == "Precompiled" and part == "normalizer" and settings.keys() == {"precompiled_charsmap"}:
        require_table(_decoded(settings["precompiled_charsmap"]))
        return True
    return kind == "Prepend" and settings == {"prepend": "▁"}


def _shortens(settings: Mapping[str, Any]) -> bool:
    """Whether a text in the place of another is not longer; the one expression is that of T5's own files."""
    pattern, text = settings.get("pattern"), settings.get("content")
    if not isinstance(text, str) or settings.keys() != {"pattern", "content"}:
        return False
    if pattern == {"Regex": " {2,}"}:
        return len(text) <= 1
    literal = pattern.get("String") if isinstance(pattern, Mapping) and len(pattern) == 1 else None
    return isinstance(literal, str) and len(literal) > 0 and len(text) <= len(literal) <= LONGEST_PIECE


def _decoded(table: Any) -> bytes:
    try:
        return base64.b64decode(table, validate=True)
    except (TypeError, ValueError, binascii.Error) as error:
        raise UnfitTokenizerError("the table of its normaliser is damaged") from error
