"""Tokenizers of a checkpoint: ``spiece.model``, ``tokenizer.json``, ``vocab.txt`` and what belongs to them."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.hostile.case import Door
from tests.hostile.checkpoints import INSPECT, Make, checkpoint, with_bytes

DOOR = Door("tokenizer")
VT5, DONUT, FORMS = "vt5-finetuned", "donut", "layoutlm-public"
MIA = ["mia", "--model", "ckpt", "--red", "red", "--out", "out"]
_WORD = "a" * 40 + "!"


def _number(value: int) -> bytes:
    out = b""
    while value > 0x7F:
        out, value = out + bytes([value & 0x7F | 0x80]), value >> 7
    return out + bytes([value])


def field(number: int, content: bytes) -> bytes:
    """A field of a protobuf message."""
    return _number(number << 3 | 2) + _number(len(content)) + content


def piece(name: bytes, kind: int = 1) -> bytes:
    """A piece of a SentencePiece model."""
    return field(1, field(1, name) + b"\x15\0\0\0\0\x18" + bytes([kind]))


_NUMBERED = piece(b"0" * 6).replace(b"0" * 6, b"%06x")
"""A piece whose name is a number, to be filled in: a million calls of ``piece`` take seconds."""
_T5 = piece(b"<pad>", 3) + piece(b"</s>", 3) + piece(b"<unk>", 2) + piece(b"a") + field(2, b"\x18\x01\xd8\x02\x00")


def _table(units: list[int], replacements: bytes) -> bytes:
    """A normaliser with this double array."""
    array = b"".join(unit.to_bytes(4, "little") for unit in (units + [0] * 256)[: max(256, len(units))])
    return field(3, field(2, len(array).to_bytes(4, "little") + array + replacements))


_SPIECE: dict[str, Callable[[], bytes]] = {
    "nothing": lambda: b"",
    "zeros": lambda: bytes(1000),
    "noise": lambda: bytes(range(256)) * 1000,
    "40 MB of it": lambda: _T5 + field(4, bytes(40 << 20)),
    "a piece of 30 MB": lambda: _T5 + piece(b"a" * (30 << 20)),
    "10 MB beside the pieces": lambda: _T5 + field(2, field(44, b"x" * (10 << 20))),
    "two million pieces": lambda: _T5 + b"".join(_NUMBERED % number for number in range(1_500_000)),
    "a table that leads out": lambda: _T5 + _table([0x3FFFFF << 10 | 0x200], b"a\0"),
    "a table with a value outside": lambda: _T5 + _table([1 << 10 | 0x100, 0x80000000 | 10**6], b"a\0"),
    "a table without an end": lambda: _T5 + _table([0], b"aaaa"),
    "a table without replacements": lambda: _T5 + _table([0], b""),
    "a table of no units": lambda: _T5 + field(3, field(2, b"\0\0\0\0a\0")),
    "a table of 4 GB": lambda: _T5 + field(3, field(2, b"\0\xfc\xff\xffa\0")),
    "a letter that becomes 10 MB": lambda: _T5 + _table([1 << 10], b"a" * (10 << 20) + b"\0"),
    "a denormaliser of 10 MB": lambda: _T5 + _table([1 << 10], b"a" * (10 << 20) + b"\0").replace(b"\x1a", b"\x2a", 1),
    "a field number of 2^61": lambda: _T5 + b"\x9a\x80\x80\x80\x80\x80\x80\x80\x01\x01a",
    "groups": lambda: _T5 + b"\x0b" * 100_000,
    "no end of a number": lambda: _T5 + b"\xff" * 20,
    "a length beyond the file": lambda: _T5 + b"\x0a\xff\xff\xff\xff\x0f",
    "pieces twice": lambda: _T5 + piece(b"a") + piece(b"a"),
    "no pieces": lambda: field(2, b"\x18\x01"),
    "scores that are no numbers": lambda: _T5 + field(1, field(1, b"b") + b"\x15\0\0\xc0\x7f"),
    "pieces that are not UTF-8": lambda: piece(b"\xff\xfe") + _T5,
}
for name, make in _SPIECE.items():
    for fixture in (VT5, DONUT) if "table" in name or "40" in name else (VT5,):
        # A model that SentencePiece reads, and that gives no trouble, may open.
        codes = (0, 2) if name.startswith("scores") else (2,)
        DOOR.add(f"spiece.model of {fixture} {name}", with_bytes(fixture, "spiece.model", make), *codes,
                 says=("ckpt",) if codes == (2,) else ())  # fmt: skip


def _fast(**changes: Any) -> dict[str, Any]:
    """A ``tokenizer.json`` that T5's is like, with changes."""
    vocabulary = [["<pad>", 0.0], ["</s>", 0.0], ["<unk>", 0.0], ["▁", -1.0], ["a", -1.0]]
    return {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None,
        "pre_tokenizer": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True},
        "post_processor": None, "decoder": None, "model": {"type": "Unigram", "unk_id": 2, "vocab": vocabulary},
    } | changes  # fmt: skip


def _corpus(folder: Path) -> None:
    (folder / "red").mkdir()
    rows = [
        {"id": f"p{n}", "provider": f"s{n % 2}", "membership": ("member", "non_member")[n % 2], "words": [_WORD, "b"],
         "boxes": [[0, 0, 1, 1]] * 2,
         "questions": [{"id": f"q{n}", "key": "provider_name", "question": _WORD, "answers": ["a"]}]}
        for n in range(8)
    ]  # fmt: skip
    (folder / "red/corpus.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def _with_fast(content: Callable[[], Any], arguments: list[str] = INSPECT, fixture: str = VT5) -> Make:
    def make(folder: Path) -> list[str]:
        ckpt = checkpoint(folder, fixture, without=("spiece.model", "vocab.txt"))
        made = content()
        (ckpt / "tokenizer.json").write_text(made if isinstance(made, str) else json.dumps(made))
        return arguments

    return make


def _split(expression: str) -> dict[str, Any]:
    return {"type": "Split", "pattern": {"Regex": expression}, "behavior": "Isolated", "invert": False}


def _replace(pattern: dict[str, str], text: str) -> dict[str, Any]:
    return {"type": "Replace", "pattern": pattern, "content": text}


_LONG = base64.b64encode((1024).to_bytes(4, "little") + (1 << 10).to_bytes(4, "little") + bytes(1020) + b"a" * 10**6
                         + b"\0").decode()  # fmt: skip
_OUT = base64.b64encode((1024).to_bytes(4, "little") + b"\xff" * 3 + b"\x7f" + bytes(1020) + b"a\0").decode()
_FAST: dict[str, Callable[[], Any]] = {
    "nothing": lambda: "",
    "nested": lambda: "[" * 500_000,
    "a list": list,
    "40 MB": lambda: "[" + "1," * (20 << 20) + "1]",
    "nested rules": lambda: '{"model":{"vocab":[]},"normalizer":' + '{"type":"Sequence","normalizers":[' * 20_000,
    "ten million pieces": lambda: _fast(model={"type": "Unigram", "unk_id": 0, "vocab": [["a", 0]] * 1_200_000}),
    "a piece of 20 MB": lambda: _fast(model={"type": "Unigram", "unk_id": 0, "vocab": [["a" * (20 << 20), 0]]}),
    "an unknown piece outside": lambda: _fast(model={"type": "Unigram", "unk_id": 10**9, "vocab": [["a", 0.0]]}),
    "a negative unknown piece": lambda: _fast(model={"type": "Unigram", "unk_id": -1, "vocab": [["a", 0.0]]}),
    "scores without number": lambda: _fast(model={"type": "Unigram", "unk_id": 0, "vocab": [["a", float("nan")]]}),
    "no vocabulary": lambda: _fast(model={"type": "Unigram", "unk_id": 0}),
    "a model of another kind": lambda: _fast(model={"type": "Evil", "vocab": {}}),
    "an added token of 20 MB": lambda: _fast(added_tokens=[{"id": 9, "content": "a" * (20 << 20)}]),
    "100,000 added tokens": lambda: _fast(added_tokens=[{"id": n, "content": f"{n}"} for n in range(100_000)]),
    "a table that leads out": lambda: _fast(normalizer={"type": "Precompiled", "precompiled_charsmap": _OUT}),
    "a table of long texts": lambda: _fast(normalizer={"type": "Precompiled", "precompiled_charsmap": _LONG}),
    "a table that is none": lambda: _fast(normalizer={"type": "Precompiled", "precompiled_charsmap": 5}),
    "an expression that is none": lambda: _fast(normalizer=_replace({"Regex": "((((("}, "")),
    "a letter that becomes 25 MB": lambda: _fast(normalizer=_replace({"Regex": "."}, "a" * (25 << 20))),
    "an id of 10^9": lambda: _fast(model={"type": "WordLevel", "unk_token": "<unk>",
        "vocab": {"<pad>": 0, "</s>": 1, "<unk>": 2, "a": 10**9}}),
    "an id of 2^70": lambda: _fast(model={"type": "WordLevel", "unk_token": "<unk>", "vocab": {"a": 2**70}}),
    "BERT's": lambda: _fast(model={"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
        "max_input_chars_per_word": 100, "vocab": {"[PAD]": 0, "[UNK]": 1, "a": 2}}),
}  # fmt: skip
for name, content in _FAST.items():
    DOOR.add(f"tokenizer.json {name}", _with_fast(content), 2, says=("ckpt",))
DOOR.add("tokenizer.json padding of 10^9", _with_fast(lambda: _fast(padding={
    "strategy": {"Fixed": 10**9}, "direction": "Right", "pad_to_multiple_of": None, "pad_id": 0, "pad_type_id": 0,
    "pad_token": "<pad>"})), 0)  # fmt: skip

DOOR.add("tokenizer.json a prefix of 30 MB", _with_fast(lambda: _fast(model={
    "type": "WordPiece", "unk_token": "<unk>", "max_input_chars_per_word": 9,
    "vocab": {"<pad>": 0, "</s>": 1, "<unk>": 2},
    "continuing_subword_prefix": "#" * (30 << 20)})), 2, says=("ckpt",))  # fmt: skip

# They open, and every check of the audit fails with a line: nothing can be asked.
_RULES: dict[str, Callable[[], Any]] = {
    "catastrophic splitting": lambda: _fast(pre_tokenizer=_split("(a*)*b|(a|aa)+$")),
    "growth in steps": lambda: _fast(normalizer={"type": "Sequence", "normalizers":
                                                 [_replace({"String": "a"}, "a" * 100)] * 5}),
    "a gigabyte a word": lambda: _fast(normalizer={"type": "Sequence", "normalizers":
                                                   [_replace({"Regex": "."}, "a" * many) for many in (32, 800_000)]}),
}  # fmt: skip
for name, content in _RULES.items():

    def _make(folder: Path, content: Callable[[], Any] = content) -> list[str]:
        _corpus(folder)
        return _with_fast(content, MIA)(folder)

    DOOR.add(f"tokenizer.json {name}", _make, 3)

_BERT = {"type": "WordPiece", "unk_token": "[UNK]", "vocab": {"[PAD]": 0, "[UNK]": 1, "[CLS]": 2, "[SEP]": 3}}
_FORM_FILES: dict[str, tuple[str, Callable[[], bytes]]] = {
    "40 MB": ("vocab.txt", lambda: b"a\n" * (20 << 20)),
    "blank lines": ("vocab.txt", lambda: b"\n" * (30 << 20)),
    "a line of 30 MB": ("vocab.txt", lambda: b"a" * (30 << 20)),
    "not UTF-8": ("vocab.txt", lambda: b"\xff\xfe"),
    "NUL": ("vocab.txt", lambda: bytes(1000)),
    "nothing": ("vocab.txt", lambda: b""),
    "settings of lists": ("tokenizer_config.json", lambda: b"[" * 100_000),
    "60 MB of settings": ("tokenizer_config.json", lambda: b"[" + b"1," * (30 << 20) + b"1]"),
}
for name, (file, written) in _FORM_FILES.items():
    DOOR.add(f"{file} {name}", with_bytes(FORMS, file, written), 2, says=(file,))
for name, made in {
    "an id of 10^18": lambda: {"model": _BERT | {"vocab": {"[PAD]": 10**18}}, "normalizer": {"type": "BertNormalizer"}},
    "a flood": lambda: '{"model":{"vocab":{' + ",".join(f'"{n:x}":{n}' for n in range(1_200_000)) + "}}}",
    "a hostile normaliser": lambda: {"model": _BERT, "normalizer": _replace({"Regex": "(a*)*b"}, "")},
    "a vocabulary of lists": lambda: {"model": {"vocab": [[[]]] * 1000}, "normalizer": {"type": "BertNormalizer"}},
}.items():
    DOOR.add(f"tokenizer.json of forms {name}", _with_fast(made, fixture=FORMS), 2, says=("tokenizer.json",))
for name, made in {
    "pieces that are numbers": lambda: {"model": {"type": "Unigram", "vocab": [[1, 0]]}},
    "scores beyond range": lambda: '{"model":{"type":"Unigram","vocab":[["a",1e999]]}}',
    "ten million pieces": lambda: {"model": {"type": "Unigram", "vocab": [["a", 0]] * 1_200_000}},
}.items():
    DOOR.add(f"tokenizer.json of donut {name}", _with_fast(made, fixture=DONUT), 2, says=("ckpt",))
