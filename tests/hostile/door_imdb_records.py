"""Records of an imdb file that cannot be used, and what is beside the file: each problem is said without its value."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np

from tests.hostile.case import Case, Door
from tests.hostile.imdb_files import COMMAND, FILE, PAGE, corpus, record

DOOR = Door("imdb records")
SECRET = "SecretName GmbH"
RECORDS: dict[str, dict[str, object]] = {
    "box of a text": {"ocr_normalized_boxes": [[0, 0, 1, SECRET], [0, 0, 1, 1]]},
    "box of texts": {"ocr_normalized_boxes": np.array([[SECRET] * 4] * 2)},
    "boxes of an object": {"ocr_normalized_boxes": {SECRET: SECRET}},
    "box that overflows": {"ocr_normalized_boxes": [[0, 0, 1, 1e300], [0, 0, 1, 1]]},
    "box of 400 digits": {"ocr_normalized_boxes": [[0, 0, 1, 10**400], [0, 0, 1, 1]]},
    "words that are an array of numbers": {"ocr_tokens": np.eye(2)},
    "words that are a text": {"ocr_tokens": SECRET},
    "words that are objects": {"ocr_tokens": [{SECRET: 1}, SECRET]},
    "answers that are an object": {"answers": {SECRET: SECRET}},
    "answers that are a matrix": {"answers": np.eye(2)},
    "answer of 300,000 letters": {"answers": SECRET * 20_000},
    "10,000 answers": {"answers": [SECRET] * 10_000},
    "question of a million letters": {"question": SECRET * 66_667},
    "question that is a list": {"question": [SECRET]},
    "question of half a character": {"question": f"{SECRET}\ud800"},
    "word of a million letters": {"ocr_tokens": [SECRET * 66_667, "a"]},
    "word of half a character": {"ocr_tokens": [f"{SECRET}\ud800", "a"]},
    "100,000 words": {"ocr_tokens": [SECRET] * 100_000, "ocr_normalized_boxes": np.zeros((100_000, 4), "f4")},
    "provider of a million letters": {"provider": SECRET * 66_667},
    "provider of half a character": {"provider": f"{SECRET}\ud800"},
    "part of a million letters": {"set_name": SECRET * 66_667},
    "image that is a list": {"image_name": [SECRET]},
    "image of a million letters": {"image_name": SECRET * 66_667},
    "image that is missing": {"image_name": SECRET},
    "id that is a list": {"question_id": [SECRET]},
    "id of 5,000 digits": {"question_id": 10**5000},
    "document that is an object": {"document": {SECRET: 1}, "provider": None},
    "label that is an array": {"label": np.eye(2), "set_name": None},
    "no question": {"question": ""},
}


def _holds(changes: dict[str, object]) -> Callable[[Path], list[str]]:
    return lambda folder: corpus(folder, {"version": SECRET}, record(**changes))


for _name, _changes in RECORDS.items():
    says = ("red holds no record that can be used",)
    DOOR.cases.append(Case(_name, DOOR.name, _holds(_changes), (3,), says, (SECRET,)))


def _folder(folder: Path, part: str, place: Callable[[Path], None]) -> list[str]:
    """A corpus of one record, one file of which is another."""
    command = corpus(folder, record())
    (folder / part).unlink(missing_ok=True)
    place(folder / part)
    return command


@DOOR.case(3, says=("holds no record that can be used",))
def _image_that_is_a_pipe(folder: Path) -> list[str]:
    return _folder(folder, f"red/images/{PAGE}.png", os.mkfifo)


@DOOR.case(3, says=("holds no record that can be used",))
def _image_that_is_a_device(folder: Path) -> list[str]:
    return _folder(folder, f"red/images/{PAGE}.png", lambda path: path.symlink_to("/dev/zero"))


@DOOR.case(0)
def _image_that_is_damaged(folder: Path) -> list[str]:
    return _folder(
        folder, f"red/images/{PAGE}.png", lambda path: path.write_bytes(b"\x89PNG\r\n\x1a\n" + b"a" * 99) and None
    )


@DOOR.case(0)
def _image_of_a_terabyte(folder: Path) -> list[str]:
    def sparse(path: Path) -> None:
        with path.open("wb") as file:
            file.truncate(1 << 40)

    return _folder(folder, f"red/images/{PAGE}.png", sparse)


@DOOR.case(2, says=(FILE, "larger than 8 GiB"))
def _imdb_of_a_terabyte(folder: Path) -> list[str]:
    command = corpus(folder, record())
    with (folder / "red" / FILE).open("ab") as file:
        file.truncate(1 << 40)
    return command


@DOOR.case(0)
def _links_that_go_round(folder: Path) -> list[str]:
    command = corpus(folder, record())
    (folder / "red/images/again").symlink_to(folder / "red")
    (folder / "red/images/self.png").symlink_to(folder / "red/images/self.png")
    return command


@DOOR.case(2, says=("positive.npy row 0", "labelled a member in one place"))
def _a_provider_on_both_sides(folder: Path) -> list[str]:
    corpus(folder, record(provider=SECRET, set_name="red_test_negative"))
    row = record(provider=SECRET, question="Which?")
    array = np.empty(1, dtype=object)
    array[0] = row
    np.save(folder / "red/red_positive.npy", array)
    return COMMAND


@DOOR.case(3, says=("holds no question",))
def _no_record_at_all(folder: Path) -> list[str]:
    corpus(folder, {"version": 1})
    return ["mia", "--model", "m", "--red", "red", "--out", "o"]
