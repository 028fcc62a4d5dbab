"""Templates, their fields, filled pages and captured gradients that were made to hurt."""

from __future__ import annotations

import json
import os
import shutil
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.hostile.case import Door
from tests.hostile.second import FIXTURES, TOUCH, pickled, png, safetensors, write

DOOR = Door("second: inversion")
_TEXT = ["--method", "text", "--out", "out", "-q"]


def _template(folder: Path) -> Path:
    shutil.copytree(FIXTURES / "templates" / "form-01", folder / "form")
    return folder / "form"


def _fielded(fields: Any) -> Callable[[Path], list[str]]:
    def make(folder: Path) -> list[str]:
        text = fields if isinstance(fields, str) else json.dumps(fields)
        write(_template(folder) / "fields.json", text)
        return ["invert", "--template", "form/template.png", *_TEXT]

    return make


def _field(box: Any, label: Any = "Name:") -> dict[str, Any]:
    return {"fields": [{"label": label, "box": box}], "words": []}


DOOR.add("a field outside of the page", _fielded(_field([-10, -10, 10**9, 10**9])), 2, says=("fields.json",))


@DOOR.case(0, 1, 2, 3)
def _a_label_of_half_a_megabyte(folder: Path) -> list[str]:
    label = "\x1b[2J\ud800\x00" + "W" * 500_000
    return _fielded(_field([8, 45, 108, 62], label))(folder)


@DOOR.case(2, says=("template.png",))
def _a_template_of_four_milliard_pixels(folder: Path) -> list[str]:
    write(folder / "template.png", png(65_000, 65_000, data=zlib.compress(bytes(1 << 20))))
    return ["invert", "--template", "template.png", *_TEXT]


@DOOR.case(2, says=("forms",))
def _a_folder_of_templates_that_holds_itself(folder: Path) -> list[str]:
    (folder / "forms").mkdir()
    (folder / "forms" / "form-01").symlink_to(".")
    os.mkfifo(folder / "forms" / "template.png")
    return ["invert", "--template", "forms", *_TEXT]


def _captured(folder: Path, data: bytes) -> list[str]:
    _template(folder)
    write(folder / "g.safetensors", data)
    return ["invert", "--template", "form/template.png", "--gradient", "g.safetensors", *_TEXT]


@DOOR.case(2, says=("g.safetensors",), absent=("marker",))
def _a_gradient_that_is_a_pickle(folder: Path) -> list[str]:
    return _captured(folder, pickled(TOUCH, 2))


@DOOR.case(2, says=("g.safetensors",))
def _a_gradient_of_other_shapes(folder: Path) -> list[str]:
    name = "decoder.model.decoder.embed_positions.weight"
    return _captured(folder, safetensors({name: {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}, bytes(4)))


@DOOR.case(0, 1, 2, 3)
def _a_gradient_without_a_finite_number(folder: Path) -> list[str]:
    weights = (FIXTURES / "donut" / "model.safetensors").read_bytes()
    begin = 8 + int.from_bytes(weights[:8], "little")
    return _captured(folder, weights[:begin] + b"\xff\x7f" * ((len(weights) - begin) // 2))


@DOOR.case(2, 4, says=("page.png",))
def _a_page_of_another_size(folder: Path) -> list[str]:
    _template(folder)
    write(folder / "page.png", png(100, 100))
    asked = ["--document", "page.png", "--question", "Who? " + "x" * 100_000, "--answer", "y"]
    return ["invert", "--template", "form/template.png", *asked, *_TEXT]
