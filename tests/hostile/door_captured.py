"""Captured gradients, training records beside a checkpoint, and special files in a checkpoint folder."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.hostile.case import Door
from tests.hostile.checkpoints import INSPECT, Make, checkpoint, sparse, with_bytes
from tests.privacy.test_guarantee import CLAIM
from tests.privacy.training_records import record_of

DOOR = Door("captured")
DONUT, FORMS, VT5 = "donut", "layoutlm-public", "vt5-finetuned"
_TEMPLATE = Path(__file__).parents[2] / "fixtures/templates/form-01/template.png"
INVERT = ["invert", "--model", "ckpt", "--template", str(_TEMPLATE), "--gradient", "g.safetensors", "--out", "out"]
ACCOUNT = ["account", "--review", "ckpt"]


def _gradient(header: Any, size: int = 0) -> Make:
    def make(folder: Path) -> list[str]:
        checkpoint(folder, DONUT)
        content = header if isinstance(header, bytes) else json.dumps(header).encode()
        head = len(content).to_bytes(8, "little") + content
        sparse(folder / "g.safetensors", head, len(head) + size)
        return INVERT

    return make


def _one(dtype: str, shape: list[int], size: int, name: str = "decoder.lm_head.weight") -> dict[str, Any]:
    return {name: {"dtype": dtype, "shape": shape, "data_offsets": [0, size]}}


_GRADIENTS: dict[str, tuple[Any, int]] = {
    "float4": (_one("F4", [16], 8), 8),
    "an expanded tensor": (_one("F32", [1 << 40], 8), 8),
    "12 GB of half precision": (_one("F16", [6 * 10**9], 12 * 10**9), 12 * 10**9),
    "another shape of 4 GB": (_one("F32", [10**9], 4 * 10**9), 4 * 10**9),
    "a name that draws on the terminal": (_one("F32", [2], 8, "\x1b[2J" * 10_000), 8),
    "a nested header": (b"[" * 200_000, 0),
    "a header of integers": (b'{"a":[' + b"1," * (2 << 20) + b"1]}", 0),
    "no tensors": ({}, 0),
    "zeros": (b"", 1000),
}
for name, (header, size) in _GRADIENTS.items():
    DOOR.add(f"gradient {name}", _gradient(header, size), 2, says=("g.safetensors",))

_RECORDS: dict[str, Callable[[], bytes]] = {
    "60 MB of integers": lambda: b'{"a": [' + b"1," * 30_000_000 + b"1]}",
    "3 MB of lists": lambda: b"[" + b"[]," * 10**6 + b"1]",
    "nested": lambda: b'{"a":' * 100_000,
    "an integer of 5,000 digits": lambda: b'{"privacy": {"epsilon": ' + b"9" * 5000 + b"}}",
    "an integer of 4,000 digits": lambda: b'{"privacy": {"epsilon": ' + b"9" * 4000 + b"}}",
    "NaN": lambda: b'{"privacy": {"epsilon": NaN, "delta": -Infinity}}',
    "not UTF-8": lambda: b"\xff\xfe",
    "a privacy of lists": lambda: b'{"privacy": [[], [], 1e400]}',
}
for name, content in _RECORDS.items():
    # What cannot be read as JSON ends the command; what can, but makes no sense, is a claim that cannot be read.
    readable = name in {"NaN", "an integer of 4,000 digits", "a privacy of lists"}
    code, says = (3, ()) if readable else (2, ("training.json", "cannot be read"))
    DOOR.add(f"training.json {name}", with_bytes(FORMS, "training.json", content, ACCOUNT), code, says=says)

_CLAIMS = {
    "rounds": (10**6, 10**9, 10**300), "noise_multiplier": (1e-300, 1e300, 1e-4), "delta": (1e-300, 1.0),
    "epsilon": (1e308, 10**4000, -1), "providers": (10**4000,), "unit": ("x" * 10**6,),
    "accountant": ("\x1b[2J" * 10**5,),
    "sampling": ({"kind": "poisson", "client_rate": 1e-300, "provider_rate": 1.0}, {"kind": "x"}, []),
}  # fmt: skip
for key, values in _CLAIMS.items():
    for value in values:
        said = json.dumps(record_of(CLAIM | {key: value})).encode()
        DOOR.add(f"a claim with {key} {value!r:.30}",
                 with_bytes(FORMS, "training.json", lambda said=said: said, ACCOUNT), 1, 3)  # fmt: skip


def _place(fixture: str, file: str, place: Callable[[Path], None], without: tuple[str, ...] = ()) -> Make:
    def make(folder: Path) -> list[str]:
        place(checkpoint(folder, fixture, without=(file, *without)) / file)
        return INSPECT

    return make


def _zeros(path: Path) -> None:
    path.symlink_to("/dev/zero")


def _itself(path: Path) -> None:
    path.symlink_to(path.name)


_PLACES = (
    (VT5, "config.json", ()),
    (FORMS, "model.safetensors", ()),
    (FORMS, "pytorch_model.bin", ("model.safetensors",)),
    (FORMS, "model.safetensors.index.json", ("model.safetensors",)),
    (VT5, "generation_config.json", ()),
    (DONUT, "preprocessor_config.json", ()),
    (VT5, "spiece.model", ()),
    (VT5, "tokenizer.json", ("spiece.model",)),
    (FORMS, "vocab.txt", ()),
    (FORMS, "tokenizer_config.json", ()),
)
for kind, place in (
    ("pipe", os.mkfifo),
    ("link to /dev/zero", _zeros),
    ("folder", Path.mkdir),
    ("link to itself", _itself),
):
    for fixture, file, without in _PLACES:
        DOOR.add(f"{kind} as {file}", _place(fixture, file, place, without), 2, says=(file,))  # type: ignore[arg-type]


@DOOR.case(2, says=("model-1.safetensors",))
def _an_index_of_a_pipe(folder: Path) -> list[str]:
    ckpt = checkpoint(folder, FORMS, without=("model.safetensors",))
    os.mkfifo(ckpt / "model-1.safetensors")
    (ckpt / "model.safetensors.index.json").write_text('{"weight_map": {"a": "model-1.safetensors"}}')
    return INSPECT


@DOOR.case(2, says=("ckpt",))
def _a_pipe_as_the_folder(folder: Path) -> list[str]:
    os.mkfifo(folder / "ckpt")
    return INSPECT


@DOOR.case(4, says=("ckpt",))
def _no_folder(folder: Path) -> list[str]:
    return INSPECT


DOOR.add("a folder with NUL in its name", lambda folder: ["inspect", "a\0b"], 2, 4)
DOOR.add("a folder with a name of 5,000 letters", lambda folder: ["inspect", "a" * 5000], 4)
