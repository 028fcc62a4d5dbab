"""Checkpoints whose tokenizer is made to hurt."""

from __future__ import annotations

import json
import shutil
import struct
from pathlib import Path

from tests.hostile.case import Door
from tests.hostile.second import (
    DONUT,
    FIXTURES,
    LAYOUTLM,
    VT5,
    checkpoint,
    header_of,
    safetensors,
    settings,
    sparse,
    write,
)  # fmt: skip

DOOR = Door("second: tokenizers")
_INSPECT = ["inspect", "ckpt", "--open"]


def _number(number: int) -> bytes:
    out = b""
    while number > 127:
        out, number = out + bytes([number & 127 | 128]), number >> 7
    return out + bytes([number])


def _field(tag: int, data: bytes) -> bytes:
    return _number(tag << 3 | 2) + _number(len(data)) + data


def _piece(text: bytes, score: float, kind: int = 1) -> bytes:
    return _field(1, _field(1, text) + b"\x15" + struct.pack("<f", score) + b"\x18" + _number(kind))


def _spoilt(data: bytes, piece: int, score: float) -> bytes:
    """A model in which one piece has another score."""
    out, place = b"", 0
    while data[place : place + 1] == b"\x0a":  # the pieces stand first
        size = data[place + 1]
        body = data[place + 2 : place + 2 + size]
        if piece == 0:
            mark = body.index(b"\x15")
            body = body[: mark + 1] + struct.pack("<f", score) + body[mark + 5 :]
        out, place, piece = out + b"\x0a" + bytes([len(body)]) + body, place + 2 + size, piece - 1
    return out + data[place:]


_QUESTION = "What does this tokenizer make of ﬁne Ångström １２３?"


def _asked(folder: Path, data: bytes) -> list[str]:
    """A Donut with this tokenizer is asked about an embedded form, so that text is really cut."""
    write(checkpoint(folder, DONUT) / "spiece.model", data)
    template = FIXTURES / "templates" / "form-01" / "template.png"
    shutil.copy(template, folder / "template.png")
    asked = ["--document", "template.png", "--question", _QUESTION, "--answer", "ﬁne"]
    return ["invert", "--model", "ckpt", "--template", "template.png", *asked, "--method", "text", "--out", "out", "-q"]


@DOOR.case(2, says=("spiece.model",))
def _a_piece_that_claims_two_gigabytes(folder: Path) -> list[str]:
    write(checkpoint(folder, VT5) / "spiece.model", b"\x0a\xff\xff\xff\xff\x07abc")
    return _INSPECT


@DOOR.case(2, says=("spiece.model",))
def _the_same_piece_a_thousand_times(folder: Path) -> list[str]:
    write(checkpoint(folder, VT5) / "spiece.model", _piece(b"<unk>", 0, 2) + _piece(b"same", -1) * 999)
    return _INSPECT


@DOOR.case(0, 1, 2, 3)
def _a_normaliser_whose_table_points_far_outside(folder: Path) -> list[str]:
    sound = (FIXTURES / DONUT / "spiece.model").read_bytes()
    table = struct.pack("<I", 1024) + b"\xff\xff\xff\x7f" * 256 + b"x" * 15 + b"\x00"
    return _asked(folder, sound + _field(3, _field(1, b"nmt_nfkc") + _field(2, table)))


@DOOR.case(0, 1, 2, 3)
def _scores_that_are_no_numbers(folder: Path) -> list[str]:
    data = (FIXTURES / DONUT / "spiece.model").read_bytes()
    for piece, score in ((50, float("nan")), (51, float("inf")), (52, float("-inf")), (390, float("nan"))):
        data = _spoilt(data, piece, score)
    return _asked(folder, data)


@DOOR.case(0, 2)
def _a_tokenizer_with_rules_that_panic(folder: Path) -> list[str]:
    place = checkpoint(folder, VT5, "spiece.model")
    found = {
        "version": "1.0",
        "added_tokens": [{"id": 2**31, "content": "", "special": True, "single_word": False, "lstrip": False,
                          "rstrip": False, "normalized": False}],
        "normalizer": {"type": "Precompiled", "precompiled_charsmap": "/////wAAAAA="},
        "pre_tokenizer": {"type": "Split", "pattern": {"Regex": "(a+)+$"}, "behavior": "Removed", "invert": True},
        "model": {"type": "Unigram", "unk_id": 0, "vocab": [["<unk>", 0.0], ["</s>", 0.0], ["a", -1.0]]},
    }  # fmt: skip
    write(place / "tokenizer.json", json.dumps(found))
    return _INSPECT


@DOOR.case(2, says=("tokenizer.json",))
def _a_tokenizer_whose_pieces_are_no_pieces(folder: Path) -> list[str]:
    place = checkpoint(folder, DONUT, "spiece.model")
    vocabulary = [[None, 0], ["a"], {"b": 1}, ["\ud800", 1e400], [["c"], "x"]] * 80
    write(place / "tokenizer.json", json.dumps({"model": {"type": "Unigram", "unk_id": 10**9, "vocab": vocabulary}}))
    return _INSPECT


@DOOR.case(2, says=("vocab.txt",))
def _a_vocabulary_of_eight_gigabytes_on_one_line(folder: Path) -> list[str]:
    file = checkpoint(folder, LAYOUTLM) / "vocab.txt"
    sparse(file, 8 << 30, file.read_bytes())
    return _INSPECT


@DOOR.case(2, says=("merges.txt",))
def _merges_of_pieces_that_do_not_exist(folder: Path) -> list[str]:
    place = checkpoint(folder, LAYOUTLM, "vocab.txt", "training.json")
    settings(place / "config.json", {"architectures": ["LayoutLMForQuestionAnswering"]})
    header, data = header_of(place / "model.safetensors")
    header = {key: found for key, found in header.items() if key.startswith("layoutlm.")}
    end = max(found["data_offsets"][1] for found in header.values())
    begin = min(found["data_offsets"][0] for found in header.values())
    for found in header.values():
        found["data_offsets"] = [offset - begin for offset in found["data_offsets"]]
    header["qa_outputs.weight"] = {"dtype": "F16", "shape": [2, 128], "data_offsets": [end - begin, end - begin + 512]}
    header["qa_outputs.bias"] = {"dtype": "F16", "shape": [2], "data_offsets": [end - begin + 512, end - begin + 516]}
    write(place / "model.safetensors", safetensors(header, data[begin:end] + bytes(516)))
    write(place / "tokenizer_config.json", '{"tokenizer_class": "RobertaTokenizer"}')
    vocabulary = {token: number for number, token in enumerate(("<s>", "<pad>", "</s>", "<unk>", "<mask>"))}
    write(place / "vocab.json", json.dumps(vocabulary | {f"w{number}": number for number in range(5, 1000)}))
    write(place / "merges.txt", "#version: 0.2\n" + "x\ny z w\n\ud800 a\nĠ Ġ\n" * 1000)
    return _INSPECT
