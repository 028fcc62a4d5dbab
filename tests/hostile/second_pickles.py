"""Imdb files whose pickle, or whose header, is made to hurt the one that reads it."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

from tests.hostile.case import Door
from tests.hostile.second import TOUCH, call, imdb, name, npy, pickled, records, several, value, write

DOOR = Door("second: imdb")
_FILE = "red_test_positive.npy"
_NDARRAY = name("numpy", "ndarray")


def _array(shape: bytes, dtype: bytes, data: bytes) -> bytes:
    """Opcodes that push an array with this state."""
    empty = call(name("numpy.core.multiarray", "_reconstruct"), _NDARRAY, value((0,)), value(b"b"))
    return empty + several(value(1), shape, dtype, value(False), data) + b"b"


def _dtype(text: str) -> bytes:
    return call(name("numpy", "dtype"), value(text), value(False), value(True))


@DOOR.case(2, says=(_FILE,), absent=("marker",))
def _an_old_pickle_that_runs_a_command_by_INST(folder: Path) -> list[str]:  # noqa: N802
    return imdb(folder, npy(b"(S'touch marker'\nios\nsystem\n."))


@DOOR.case(2, says=(_FILE,), absent=("marker",))
def _a_command_named_by_the_memo(folder: Path) -> list[str]:
    body = b"\x8c\x06system\x94\x8c\x02os\x940h\x01h\x00\x93\x8c\x0ctouch marker\x85R"
    return imdb(folder, npy(pickled(body)))


@DOOR.case(2, says=(_FILE,), absent=("marker",))
def _a_dotted_path_through_an_allowed_module(folder: Path) -> list[str]:
    text = value("numpy") + value("dtype.__class__.__base__.__subclasses__") + b"\x93)R0" + TOUCH
    return imdb(folder, npy(pickled(text)))


@DOOR.case(2, says=(_FILE,))
def _a_byte_array_of_a_terabyte(folder: Path) -> list[str]:
    return imdb(folder, npy(b"\x80\x05\x96" + struct.pack("<Q", 1 << 40) + b"x."))


@DOOR.case(2, says=(_FILE,))
def _a_memo_with_two_milliard_places(folder: Path) -> list[str]:
    return imdb(folder, npy(pickled(b"Nr" + struct.pack("<I", 0x7FFFFFF0))))


@DOOR.case(2, says=(_FILE,))
def _a_key_that_takes_for_ever_to_hash(folder: Path) -> list[str]:
    # each tuple holds the one before twice, and the hash of a tuple is not kept
    twice = b"".join(b"q" + bytes([depth]) + b"h" + bytes([depth]) + b"\x86" for depth in range(60))
    return imdb(folder, npy(pickled(b"}" + b")" + twice + b"Ns")))


@DOOR.case(2, 3)
def _a_list_in_a_list_half_a_million_deep(folder: Path) -> list[str]:
    deep = b"]" * 500_000 + b"a" * 499_999
    return imdb(folder, npy(pickled(deep)))


@DOOR.case(0, 2, 3)
def _a_record_that_holds_itself(folder: Path) -> list[str]:
    record: dict[str, object] = {"image_name": "x_1", "question": "?", "answers": ["a"]}
    record["ocr_tokens"] = record["answers"] = [record]
    return imdb(folder, records([record]))


@DOOR.case(2, says=(_FILE,))
def _pointers_in_the_bytes_of_a_structured_array(folder: Path) -> list[str]:
    # a dtype with an object inside whose flags say that there is none, over bytes of the attacker's choice
    inner = several(_dtype("O8"), value(0))
    fields = b"}" + value("a") + inner + b"s"
    state = several(value(3), value("|"), b"N", value(("a",)), fields, value(8), value(1), value(0))
    dtype = _dtype("V8") + state + b"b"
    return imdb(folder, npy(pickled(_array(value((2,)), dtype, value(b"AAAAAAAABBBBBBBB")))))


@DOOR.case(2, 3)
def _a_scalar_of_object_type_made_of_bytes(folder: Path) -> list[str]:
    scalar = call(name("numpy.core.multiarray", "scalar"), _dtype("O8"), value(b"AAAAAAAA"))
    return imdb(folder, npy(pickled(scalar)))


@DOOR.case(2, 3)
def _an_array_of_nothing_with_a_quadrillion_rows(folder: Path) -> list[str]:
    return imdb(folder, npy(b"", shape="(1000000000000000,)", descr="'|V0'"))


@DOOR.case(2, 3)
def _numbers_in_place_of_texts_and_texts_of_surrogates(folder: Path) -> list[str]:
    rows = [
        {"image_name": 7, "question": 10**400, "answers": {1: 2}, "ocr_tokens": b"bytes"},
        {"image_name": "\ud800_1", "question": "\udfff", "answers": ["\ud800"], "ocr_tokens": ["\ud800"]},
        {"image_name": None, "set_name": ["positive"], "provider": {"a": 1}, "ocr_normalized_boxes": float("nan")},
    ]
    return imdb(folder, records(rows))


@DOOR.case(0, 2, 3, absent=("outside.jpg", "out/../outside.jpg", "outside", "outside.png"))
def _a_page_whose_name_leads_out_of_the_folder_that_is_written(folder: Path) -> list[str]:
    row = {
        "image_name": "../../outside", "question": "?", "question_id": "../../outside", "answers": ["a"],
        "ocr_tokens": ["a"], "ocr_normalized_boxes": [[0, 0, 1, 1]], "provider": "P", "set_name": "red_test_positive",
    }  # fmt: skip
    write(folder / "data" / _FILE, records([row]))
    rows = b"\x00" + b"\xff" * 8
    from tests.hostile.second import png

    write(folder / "outside.jpeg", png(8, 8, data=zlib.compress(rows * 8)))
    return ["data", "convert", "data", "--out", "out/corpus"]
