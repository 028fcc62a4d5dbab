"""``--template`` and ``--fields``: an empty form and where its fields are."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.hostile.case import Door
from tests.hostile.files import png, sparse

DOOR = Door("template")
INVERT = ["invert", "--template", "form.png", "--method", "text", "--out", "run"]
FIELD = {"label": "Name:", "box": [10, 10, 90, 30]}


def _image(data: bytes) -> Callable[[Path], list[str]]:
    def make(folder: Path) -> list[str]:
        (folder / "form.png").write_bytes(data)
        return INVERT

    return make


IMAGES = {
    "empty": b"",
    "no picture": b"no picture",
    "a size of zero": png(0, 0, rows=b""),
    "a width of zero": png(0, 100, rows=b""),
    "one pixel": png(1, 1),
    "100,000 pixels a side": png(100_000, 100_000, rows=b""),
    "a white page of 62 million pixels": png(7900, 7900),
}
for _name, _data in IMAGES.items():
    DOOR.add(_name, _image(_data), 2, says=("form.png",))


@DOOR.case(3, says=("form.png", "no blank box"))
def _a_page_of_noise(folder: Path) -> list[str]:
    side = 3000
    rows = (b"\0" + b"\xff\0" * (side // 2) + b"\0" + b"\0\xff" * (side // 2)) * (side // 2)
    return _image(png(side, side, rows=rows))(folder)


def _fields(content: object) -> Callable[[Path], list[str]]:
    def make(folder: Path) -> list[str]:
        (folder / "form.png").write_bytes(png(200, 200))
        data = content if isinstance(content, bytes) else json.dumps(content).encode()
        (folder / "places.json").write_bytes(data)
        return [*INVERT, "--fields", "places.json"]

    return make


FIELDS: dict[str, Any] = {
    "no JSON": b"{SecretName",
    "not UTF-8": b'"\xff"',
    "a number": 3,
    "an empty list": [],
    "fields that are a text": {"fields": "SecretName"},
    "a field that is a text": ["SecretName"],
    "a field without a box": [{"label": "SecretName"}],
    "a box of a name": [{**FIELD, "box": [0, 0, 9, "SecretName"]}],
    "a box of a long number": [{**FIELD, "box": [0, 0, 10**400, 9]}],
    "a box of not a number": [{**FIELD, "box": [0, 0, float("nan"), 9]}],
    "a box of infinity": [{**FIELD, "box": [0, 0, float("inf"), 9]}],
    "a box beyond the page": [{**FIELD, "box": [0, 0, 900, 90]}],
    "a box before the page": [{**FIELD, "box": [-50, 0, 90, 90]}],
    "a box without an area": [{**FIELD, "box": [10, 10, 10, 10]}],
    "a box the wrong way round": [{**FIELD, "box": [90, 30, 10, 10]}],
    "boxes over one another": [FIELD, FIELD],
    "a million fields": [FIELD] * 100_000,
    "a million words": {"fields": [FIELD], "words": [{"text": "a", "box": [0, 0, 1, 1]}] * 100_000},
    "a word beyond the page": {"fields": [FIELD], "words": [{"text": "SecretName", "box": [0, 0, 9e8, 1]}]},
    "a label of a megabyte": [{**FIELD, "label": "SecretName" * 100_000}],
    "a label of a list": [{**FIELD, "label": ["SecretName"]}],
    "nested 10^6 deep": b"[" * 1_000_000,
    "an integer of 5,000 digits": b"[" + b"9" * 5000 + b"]",
}
for _name, _content in FIELDS.items():
    DOOR.add(f"fields: {_name}", _fields(_content), 2, says=("places.json",))


@DOOR.case(2, says=("places.json", "larger than"))
def _fields_of_a_gigabyte(folder: Path) -> list[str]:
    arguments = _fields([FIELD])(folder)
    sparse(folder / "places.json", 1 << 30)
    return arguments


@DOOR.case(4, says=("nowhere.png", "does not exist"))
def _missing(folder: Path) -> list[str]:
    return ["invert", "--template", "nowhere.png", "--method", "text", "--out", "run"]


@DOOR.case(4, says=("nowhere.json", "does not exist"))
def _fields_that_are_missing(folder: Path) -> list[str]:
    (folder / "form.png").write_bytes(png(200, 200))
    return [*INVERT, "--fields", "nowhere.json"]


@DOOR.case(2, says=("forms", "template.png"))
def _a_folder_of_nothing(folder: Path) -> list[str]:
    (folder / "forms").mkdir()
    return ["invert", "--template", "forms", "--method", "text", "--out", "run"]
