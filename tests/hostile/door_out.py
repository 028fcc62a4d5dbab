"""What others made, or no folder at all, in the place of ``--out``: nothing of it is written over."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

from tests.hostile.case import Door

DOOR = Door("out")
FIXTURES = Path(__file__).parents[2] / "fixtures"
_PAGE = {
    "id": "page_1", "provider": "Acme", "split": "blue_train_client_0", "membership": "member", "words": ["x"],
    "boxes": [[0, 0, 1, 1]], "questions": [{"question": "Who?", "answers": ["x"]}],
}  # fmt: skip
_NO_FOLDER: dict[str, tuple[Callable[[Path], object], int, str]] = {
    "a file": (lambda path: path.write_text("mine"), 2, "is a file, not a folder"),
    "a named pipe": (os.mkfifo, 2, "is a named pipe, not a folder"),
    "a link to a device": (lambda path: path.symlink_to("/dev/null"), 2, "is a device, not a folder"),
    "a link that leads nowhere": (lambda path: path.symlink_to("gone"), 2, "is a link that leads nowhere"),
    "a link to itself": (lambda path: path.symlink_to(path.name), 2, "cannot be a folder"),
}
_NO_NAME = {
    "bytes that are not UTF-8": "o\udcff",
    "a name that is too long": "o" * 300,
}


def _own_results(path: Path) -> None:
    """Somebody's own audit, checkpoint and evidence."""
    (path / "evidence").mkdir(parents=True)
    for name in ("results.json", "report.html", "config.json", "model.safetensors", "evidence/page.jpg", "run.json"):
        (path / name).write_text("{}")


def _own_marker(path: Path) -> None:
    _own_results(path)
    (path / ".pfl-audit").write_text("my notes on pfl-audit")


def _corpus(folder: Path) -> None:
    (folder / "corpus").mkdir()
    (folder / "corpus/corpus.jsonl").write_text(json.dumps(_PAGE) + "\n")


_COMMANDS: dict[str, list[str]] = {
    "mia": ["mia", "--red", "corpus", "--model", "nowhere", "--out"],
    "invert": ["invert", "--out"],
    "train": ["train", "--data", "corpus", "--out"],
    "train on forms": ["train", "--task", "mlm", "--data", str(FIXTURES / "forms"), "--out"],
    "data make": ["data", "make", "--out"],
    "data make-forms": ["data", "make-forms", "--out"],
    "data make-documents": ["data", "make-documents", "--out"],
    "data convert": ["data", "convert", "corpus", "--out"],
    "data import": ["data", "import", "fcc-adbuy", "corpus", "--out"],
    "memorize --export": ["memorize", "--red", "corpus", "--export"],
    "defend": ["defend", "--out"],
    "demo": ["demo", "--out"],
}


def _placed(arguments: list[str], place: Callable[[Path], object], name: str = "out") -> Callable[[Path], list[str]]:
    def make(folder: Path) -> list[str]:
        _corpus(folder)
        place(folder / "out")
        return [*arguments, name]

    return make


for command, arguments in _COMMANDS.items():
    DOOR.add(f"{command}: others' files", _placed(arguments, _own_results), 4, says=("out",))
for command in ("mia", "train", "data make", "defend"):
    DOOR.add(f"{command}: a marker that is not ours", _placed(_COMMANDS[command], _own_marker), 4, says=("out",))
    for kind, (place, code, says) in _NO_FOLDER.items():
        DOOR.add(f"{command}: {kind}", _placed(_COMMANDS[command], place), code, says=("out", says))
    for kind, name in _NO_NAME.items():
        DOOR.add(f"{command}: {kind}", _placed(_COMMANDS[command], lambda _: None, name), 4, says=("cannot be",))
    for name in ("corpus/corpus.jsonl/o", "corpus/corpus.jsonl/o/p"):
        says = ("corpus/corpus.jsonl is not one",)
        DOOR.add(f"{command}: {name}", _placed(_COMMANDS[command], lambda _: None, name), 2, says=says)
for command in ("mia", "train"):
    arguments = _COMMANDS[command]
    DOOR.add(f"{command}: a folder that cannot be made", _placed(arguments, lambda _: None, "/proc/o"), 2)


def _ours(path: Path, kind: str) -> None:
    path.mkdir()
    (path / ".pfl-audit").write_text(json.dumps({"made_by": "pfl-audit", "kind": kind, "settings": None}))


@DOOR.case(2, says=("out/private", "is a link"))
def a_link_within_a_run_of_ours(folder: Path) -> list[str]:
    (folder / "elsewhere").mkdir()
    _ours(folder / "out", "audit")
    (folder / "out/private").symlink_to(folder / "elsewhere")
    return [*_COMMANDS["mia"], "out"]


@DOOR.case(2, says=("spiece.model", "is a link"))
def a_link_within_a_training_of_ours(folder: Path) -> list[str]:
    _corpus(folder)
    _ours(folder / "out", "training")
    (folder / "pieces").write_text("mine")
    (folder / "out/spiece.model").symlink_to(folder / "pieces")
    return [*_COMMANDS["train"], "out"]


@DOOR.case(4, says=("out", "another command"))
def an_audit_in_a_training(folder: Path) -> list[str]:
    _ours(folder / "out", "training")
    return [*_COMMANDS["mia"], "out"]


@DOOR.case(2, says=("run.json", "not a run's"))
def a_run_whose_record_is_a_list(folder: Path) -> list[str]:
    _ours(folder / "out", "audit")
    (folder / "out/run.json").write_text("[1]")
    return [*_COMMANDS["mia"], "out"]


@DOOR.case(2, says=("run.json", "named pipe"))
def a_run_whose_record_is_a_pipe(folder: Path) -> list[str]:
    _ours(folder / "out", "audit")
    os.mkfifo(folder / "out/run.json")
    return [*_COMMANDS["mia"], "out"]


@DOOR.case(4, says=("x.toml", "out"))
def a_name_with_a_nul(folder: Path) -> list[str]:
    (folder / "x.toml").write_text('out = "a\\u0000b"\n')
    return [*_COMMANDS["mia"][:-1], "--config", "x.toml"]
