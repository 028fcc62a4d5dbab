"""Named pipes, sockets and devices in the place of a file."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from tests.hostile.case import Door
from tests.hostile.files import PAGE, lines, make_socket, png, two_providers

DOOR = Door("special files")


def _pipe(path: Path) -> None:
    os.mkfifo(path)


def _zeros(path: Path) -> None:
    path.symlink_to("/dev/zero")


def _command(place: Callable[[Path], None], file: str, arguments: list[str]) -> Callable[[Path], list[str]]:
    def make(folder: Path) -> list[str]:
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        place(folder / file)
        return arguments

    return make


def _beside(place: Callable[[Path], None], file: str, arguments: list[str]) -> Callable[[Path], list[str]]:
    """As _command, with a corpus of two providers, a picture and forms there already."""

    def make(folder: Path) -> list[str]:
        two_providers(folder)
        (folder / "form.png").write_bytes(png(200, 200))
        for name, data in (("funsd/images", png(9, 9)), ("sroie/img", png(9, 9))):
            (folder / name).mkdir(parents=True)
            (folder / name / "a.png").write_bytes(data)
        for name in ("funsd/annotations", "sroie/box", "sroie/entities"):
            (folder / name).mkdir()
        if file.startswith("sroie/entities"):
            (folder / "sroie/box/a.txt").write_text("0,0,9,0,9,9,0,9,a")
        if file.endswith("picture.png"):
            lines(folder / "red/corpus.jsonl", {**PAGE, "image": "picture.png"})
        return _command(place, file, arguments)(folder)

    return make


_INVERT = ["invert", "--method", "text", "--out", "run"]
_RECONSTRUCT = ["reconstruct", "--model", "m", "--public", "p", "--out", "run"]
_PLACES = {
    "corpus.jsonl": ("own/corpus.jsonl", ["data", "check", "own"], (2,)),
    "corpus itself": ("own.jsonl", ["data", "check", "own.jsonl"], (2,)),
    "corpus to convert": ("own/corpus.jsonl", ["data", "convert", "own", "--out", "new"], (2,)),
    "corpus to ask": ("own/corpus.jsonl", ["mia", "--red", "own", "--answers", "a", "--out", "run"], (2,)),
    "BLUE corpus": ("own/corpus.jsonl", ["memorize", "--red", "red", "--blue", "own", "--export", "new"], (2,)),
    "imdb": ("own/imdb_red.npy", ["data", "check", "own"], (2,)),
    "answers": ("answers.jsonl", ["mia", "--red", "red", "--answers", "answers.jsonl", "--out", "run"], (2,)),
    "config": ("audit.toml", ["data", "make", "--out", "new", "--config", "audit.toml"], (2,)),
    "forms.jsonl": ("forms/forms.jsonl", ["data", "check", "forms"], (2,)),
    "forms to reconstruct": ("forms/forms.jsonl", [*_RECONSTRUCT, "--forms", "forms"], (2,)),
    "forms themselves": ("forms", [*_RECONSTRUCT, "--forms", "forms"], (2,)),
    "docs.jsonl": ("fcc/docs.jsonl", ["data", "import", "fcc-adbuy", "fcc", "--out", "new"], (2,)),
    "FCC folder": ("fcc", ["data", "import", "fcc-adbuy", "fcc", "--out", "new"], (2,)),
    "FUNSD annotations": ("funsd/annotations/a.json", ["data", "check", "funsd"], (3,)),
    "FUNSD picture": ("funsd/images/b.png", ["data", "check", "funsd"], (3,)),
    "SROIE boxes": ("sroie/box/a.txt", ["data", "check", "sroie"], (3,)),
    "SROIE entities": ("sroie/entities/a.txt", ["data", "check", "sroie"], (3,)),
    "page image": ("red/picture.png", ["data", "check", "red"], (3,)),
    "template": ("own.png", [*_INVERT, "--template", "own.png"], (2,)),
    "fields": ("own.json", [*_INVERT, "--template", "form.png", "--fields", "own.json"], (2,)),
    "document": ("own.png", [*_INVERT, "--document", "own.png", "--question", "?", "--answer", "a"], (2,)),
    "public template": ("own.png", [*_INVERT, "--public", "own.png"], (2,)),
}
for kind, place in (("pipe", _pipe), ("socket", make_socket), ("link to /dev/zero", _zeros)):
    for name, (file, arguments, codes) in _PLACES.items():
        DOOR.add(f"{kind} as {name}", _beside(place, file, arguments), *codes)
