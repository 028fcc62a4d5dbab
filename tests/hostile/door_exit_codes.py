"""One mistake has one exit code in every command: a path that does not exist is 4, one that cannot be used 2."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from tests.hostile.case import Door

DOOR = Door("exit codes")
_FIXTURES = Path(__file__).parents[2] / "fixtures"
_BAD = "wrong.in"


def _fixture(name: str) -> str:
    return str(_FIXTURES / name)


_RED, _BLUE, _FORMS = map(_fixture, ("red", "blue-secrets", "forms"))
_VT5, _DONUT = map(_fixture, ("vt5-finetuned", "donut"))
_ENCODER, _PUBLIC = map(_fixture, ("layoutlm-private", "layoutlm-public"))
_FORM = _fixture("templates/form-01/template.png")
_RECONSTRUCT = {"--model": _ENCODER, "--public": _PUBLIC, "--forms": _FORMS}

_AUDIT = ("--red", "--model", "--answers")
# Command: what it needs, and its options that take a path; "" is its argument.
_COMMANDS: dict[str, tuple[dict[str, str], tuple[str, ...]]] = {
    "audit": ({"--red": _RED, "--model": _VT5}, (*_AUDIT, "--pretrained", "--blue")),
    "memorize": ({"--red": _RED, "--model": _VT5}, _AUDIT),
    "memorize --export pages": ({"--red": _RED}, ("--red", "--blue")),
    "mia": ({"--red": _RED, "--model": _VT5}, _AUDIT),
    "reconstruct": (_RECONSTRUCT, ("--model", "--public", "--forms", "--epochs")),
    "invert": (
        {"--model": _DONUT, "--template": _FORM},
        ("--model", "--template", "--fields", "--public", "--gradient"),
    ),
    "invert --ocr trocr": ({"--model": _DONUT, "--template": _FORM}, ("--ocr-weights",)),
    "invert --question Who --answer Rosa": ({"--model": _DONUT, "--template": _FORM}, ("--document",)),
    "defend": ({"--model": _DONUT}, ("--model", "--template", "--fields")),
    "train --out new": ({"--data": _BLUE}, ("--data", "--from")),
    "train --out new --task mlm": ({"--data": _FORMS}, ("--data", "--from")),
    "account": ({}, ("--review", "--ledger")),
    "verify": ({}, ("",)),
    "data check": ({}, ("",)),
    "data convert --out new": ({}, ("",)),
    "data import --out new fcc-adbuy": ({}, ("",)),
    "data import --out new": ({}, ("",)),
    "report": ({}, ("",)),
    "compare": ({}, ("",)),
    "inspect": ({}, ("",)),
}
_WITH_CONFIG = [*_COMMANDS, "demo", "data make --out new", "data make-forms --out new"]
_PLACES: dict[str, tuple[Callable[[Path], object], int]] = {
    "missing": (lambda _: None, 4),
    "named pipe": (os.mkfifo, 2),
    "folder": (Path.mkdir, 2),
    "empty file": (Path.touch, 2),
}


def _command(name: str, given: dict[str, str], option: str, place: str) -> Callable[[Path], list[str]]:
    def make(folder: Path) -> list[str]:
        _PLACES[place][0](folder / _BAD)
        values = {**given, option: _BAD}
        if option == "--answers":
            del values["--model"]
        return [*name.split(), *(part for pair in values.items() for part in pair if part)]

    return make


def _add(name: str, given: dict[str, str], option: str, place: str) -> None:
    DOOR.add(f"{name} {option}: {place}", _command(name, given, option, place), _PLACES[place][1], says=(_BAD,))


def _words(name: str, *more: str) -> Callable[[Path], list[str]]:
    return lambda _: [*name.split(), *more]


for command, (given, options) in _COMMANDS.items():
    for option in options:
        for place in _PLACES:
            _add(command, given, option, place)
for command in _WITH_CONFIG:
    _add(command, _COMMANDS.get(command, ({}, ()))[0], "--config", "missing")
    DOOR.add(f"{command}: an unknown option", _words(command, "--nonsense"), 4, says=("--nonsense",))
for place in ("named pipe", "folder"):
    _add("data make --out new", {}, "--config", place)
for command, wrong in {
    "audit --red x --model y": ("--fail-on", "perhaps"),
    "memorize --red x --model y": ("--key", "shoe-size"),
    "mia --red x --model y": ("--check", "membership.none"),
    "reconstruct": ("--mean", "harmonic"),
    "invert": ("--method", "guessing"),
    "defend": ("--strategy", "hope"),
    "train --data x --out new": ("--mode", "alone"),
    "account": ("--accounting", "hopeful"),
    "demo": ("--device", "abacus"),
    "inspect x": ("--device", "abacus"),
    "data make --out new": ("--seed", "-1"),
    "data make-forms --out new": ("--seed", "much"),
}.items():
    DOOR.add(f"{command} {' '.join(wrong)}", _words(command, *wrong), 4)
DOOR.add("a source that is unknown", _words("data import fax x --out new"), 4, says=("fax",))
