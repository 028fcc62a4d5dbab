"""Checkpoints whose config.json, tokenizer or other settings are made to hurt."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.hostile.case import Door
from tests.hostile.second import (
    DONUT,
    LAYOUTLM,
    VT5,
    checkpoint,
    configured,
    settings,
    sparse,
    write,
)  # fmt: skip

DOOR = Door("second: configs")
_INSPECT = ["inspect", "ckpt", "--open"]


def _differs(label: str, fixture: str, *codes: int, file: str = "config.json", **changes: Any) -> None:
    def make(folder: Path) -> list[str]:
        return configured(folder, fixture, {key.replace("__", "."): what for key, what in changes.items()}, file)

    DOOR.add(label, make, *codes, says=("ckpt",) if codes == (2,) else ())


_differs("a milliard of layers", VT5, 2, num_layers=10**9)
_differs("a width that is not finite", VT5, 2, d_model=float("inf"))
_differs("sizes that are truth and text", VT5, 2, num_layers=True, d_ff="512")
_differs("a picture of a milliard of pixels a side", VT5, 2, vt5_visual__image_size=10**9)
_differs("a family of half a character", VT5, 0, 2, model_type="\ud800t5\x1b[2J")
_differs(
    "a page of a million by a million",
    DONUT,
    2,
    file="preprocessor_config.json",
    size={"height": 10**6, "width": 10**6},
)
_differs("an activation that is a program", LAYOUTLM, 2, hidden_act="__import__('os').system('touch marker')")


@DOOR.case(2, says=("config.json",))
def _a_number_of_a_million_digits(folder: Path) -> list[str]:
    write(checkpoint(folder, VT5) / "config.json", '{"model_type": "t5", "d_model": ' + "1" * 10**6 + "}")
    return _INSPECT


@DOOR.case(2, says=("config.json",))
def _a_config_of_ten_gigabytes_of_holes(folder: Path) -> list[str]:
    file = checkpoint(folder, VT5) / "config.json"
    file.unlink()
    sparse(file, 10 << 30, b'{"model_type": "t5"}')
    return _INSPECT


@DOOR.case(0, 2, absent=("marker",))
def _code_beside_the_weights(folder: Path) -> list[str]:
    place = checkpoint(folder, VT5)
    settings(place / "config.json", {"auto_map": {"AutoModel": "modeling.Model"}, "trust_remote_code": True})
    code = "import os\nos.system('touch marker')\n"
    for file in ("modeling.py", "conftest.py", "sitecustomize.py", "__init__.py"):
        write(place / file, code)
        write(folder / file, code)
    return _INSPECT
