"""``corpus.jsonl``: floods in one line or many, wrong kinds of values, files of another form."""

from __future__ import annotations

import gzip
import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.hostile.case import Case, Door
from tests.hostile.files import PAGE, lines, sparse, two_providers

DOOR = Door("corpus")
SECRET = "SecretName"
CHECK = ["data", "check", "red"]


def _page(**change: Any) -> Callable[[Path], list[str]]:
    """A corpus of two good pages and one that differs."""

    def make(folder: Path) -> list[str]:
        two_providers(folder, {**PAGE, "id": "x_1", "questions": [{**PAGE["questions"][0], "id": "x"}], **change})
        return CHECK

    return make


def _line(text: str) -> Callable[[Path], list[str]]:
    def make(folder: Path) -> list[str]:
        two_providers(folder, text)
        return CHECK

    return make


def _asked(**change: Any) -> dict[str, Any]:
    return {"questions": [{**PAGE["questions"][0], "id": "x", **change}]}


PAGES: dict[str, dict[str, Any]] = {
    "box of a name": {"boxes": [[0, 0, 1, f"{SECRET} GmbH"], [0, 0, 1, 1]]},
    "box of an object": {"boxes": [{SECRET: 1}, [0, 0, 1, 1]]},
    "box of a long number": {"boxes": [[10**400, 0, 1, 1], [0, 0, 1, 1]]},
    "box of not a number": {"boxes": [[float("nan"), 0, 1, 1], [0, 0, 1, 1]]},
    "box of infinity": {"boxes": [[float("inf"), 0, 1, 1], [0, 0, 1, 1]]},
    "boxes in pixels": {"boxes": [[10, 20, 300, 400], [0, 0, 1, 1]]},
    "boxes of three": {"boxes": [[0, 0, 1], [0, 0, 1]]},
    "boxes that are ragged": {"boxes": [[0, 0, 1], [0, 0, 1, 1, 1]]},
    "boxes of one number": {"boxes": [0, 1]},
    "a million boxes": {"boxes": [[0, 0, 1, 1]] * 1_000_000},
    "a million words": {"words": ["a"] * 1_000_000, "boxes": [[0, 0, 1, 1]] * 1_000_000},
    "a word of a megabyte": {"words": [SECRET * 100_000, "12"]},
    "words of objects": {"words": [{SECRET: SECRET}, "12"]},
    "words of nothing": {"words": [None, None]},
    "words that are a text": {"words": SECRET},
    "an answer of 300,000 letters": _asked(answers=["x" * 300_000]),
    "answers of an object": _asked(answers={SECRET: 1}),
    "answers of lists": _asked(answers=[[SECRET]]),
    "a million answers": _asked(answers=["12"] * 1_000_000),
    "a blank answer": _asked(answers=[" "]),
    "a question of a megabyte": _asked(question=SECRET * 100_000),
    "a question of a number": _asked(question=3),
    "questions that are texts": {"questions": [SECRET]},
    "a million questions": {"questions": [{"question": "?", "answers": ["12"]}] * 300_000},
    "a membership of its own": {"membership": SECRET},
    "a membership of a list": {"membership": [SECRET]},
    "a provider of a megabyte": {"provider": SECRET * 100_000},
    "a provider of an object": {"provider": {SECRET: 1}},
    "an id of a megabyte": {"id": SECRET * 100_000},
    "an id of a list": {"id": [SECRET]},
    "a client below zero": {"client": -1},
    "a client of a long number": {"client": 10**4000},
    "a client of a name": {"client": SECRET},
    "a split of an object": {"split": {SECRET: 1}},
    "an image of an object": {"image": {SECRET: 1}},
    "an image with a zero byte": {"image": f"{SECRET}\0.png"},
    "an image outside": {"image": f"../../{SECRET}.png"},
    "an image at the root": {"image": f"/etc/{SECRET}"},
    "an image of a megabyte": {"image": f"{SECRET}/" * 100_000},
    "an image with a long name": {"image": SECRET * 100},
    "half of a character": {"words": ["\ud800", "12"]},
}
for _name, _change in PAGES.items():
    DOOR.cases.append(Case(_name, DOOR.name, _page(**_change), (0,), (), (SECRET,)))

LINES = {
    "a line that is no JSON": f'{{"id": "{SECRET}',
    "a line of a list": f'["{SECRET}"]',
    "a line without its fields": "{}",
    "a key of a name": json.dumps({SECRET: SECRET}),
    "nested 10^6 deep": "[" * 1_000_000,
    "objects nested 10^5 deep": '{"a":' * 100_000,
    "an integer of 5,000 digits": '{"id": ' + "9" * 5000 + "}",
    "a line of control codes": "\x1b[2J\x07",
    "a million empty lists": "[" + "[]," * 1_000_000 + "[]]",
}
for _name, _text in LINES.items():
    DOOR.cases.append(Case(_name, DOOR.name, _line(_text), (0,), (), (SECRET, "\x1b")))


@DOOR.case(0)
def _a_line_of_a_gigabyte(folder: Path) -> list[str]:
    two_providers(folder)
    good = (folder / "red/corpus.jsonl").read_bytes()
    sparse(folder / "red/corpus.jsonl", 1 << 30, good)
    return CHECK


@DOOR.case(2, says=("corpus.jsonl", "larger than"))
def _a_file_of_a_terabyte(folder: Path) -> list[str]:
    sparse(folder / "red/corpus.jsonl", 1 << 40)
    return CHECK


@DOOR.case(2, says=("corpus.jsonl", "more than 1,000,000 lines"))
def _two_million_lines(folder: Path) -> list[str]:
    (folder / "red").mkdir()
    (folder / "red/corpus.jsonl").write_text("3\n" * 1_100_000)
    return CHECK


@DOOR.case(2, says=("corpus.jsonl", "one JSON object a line"))
def _pretty_printed(folder: Path) -> list[str]:
    (folder / "red").mkdir()
    (folder / "red/corpus.jsonl").write_text(json.dumps([PAGE] * 50, indent=2))
    return CHECK


@DOOR.case(2, says=("corpus.jsonl", "one JSON object a line"))
def _a_list_on_one_line(folder: Path) -> list[str]:
    lines(folder / "red/corpus.jsonl", json.dumps([PAGE] * 50))
    return CHECK


@DOOR.case(2, says=("red.zip", "ZIP", "Unpack"))
def _a_zip(folder: Path) -> list[str]:
    with zipfile.ZipFile(folder / "red.zip", "w") as archive:
        archive.writestr("corpus.jsonl", json.dumps(PAGE))
    return ["data", "check", "red.zip"]


@DOOR.case(2, says=("corpus.jsonl", "ZIP", "Unpack"))
def _a_zip_by_the_name_of_the_corpus(folder: Path) -> list[str]:
    (folder / "red").mkdir()
    with zipfile.ZipFile(folder / "red/corpus.jsonl", "w") as archive:
        archive.writestr("corpus.jsonl", json.dumps(PAGE))
    return CHECK


@DOOR.case(2, says=("corpus.jsonl", "gzip"))
def _a_gzip(folder: Path) -> list[str]:
    (folder / "red").mkdir()
    (folder / "red/corpus.jsonl").write_bytes(gzip.compress(json.dumps(PAGE).encode()))
    return CHECK


@DOOR.case(2, says=("corpus.jsonl", "UTF-16"))
def _utf_16(folder: Path) -> list[str]:
    (folder / "red").mkdir()
    (folder / "red/corpus.jsonl").write_text(json.dumps(PAGE), encoding="utf-16")
    return CHECK


@DOOR.case(2, says=("corpus.jsonl", "UTF-8", "line 2"))
def _latin_1(folder: Path) -> list[str]:
    (folder / "red").mkdir()
    rows = (PAGE, {**PAGE, "provider": "Société"})
    text = "\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
    (folder / "red/corpus.jsonl").write_text(text, encoding="latin-1")
    return CHECK


@DOOR.case(0)
def _a_byte_order_mark(folder: Path) -> list[str]:
    two_providers(folder)
    file = folder / "red/corpus.jsonl"
    file.write_bytes(b"\xef\xbb\xbf" + file.read_bytes())
    return CHECK


@DOOR.case(3, says=("red", "holds no record that can be used"))
def _empty(folder: Path) -> list[str]:
    lines(folder / "red/corpus.jsonl")
    return CHECK


@DOOR.case(3, says=("red", "holds no question"))
def _empty_to_convert(folder: Path) -> list[str]:
    lines(folder / "red/corpus.jsonl")
    return ["data", "convert", "red", "--out", "new"]


@DOOR.case(3, says=("red", "holds no question"), silent=(SECRET,))
def _nothing_usable_to_audit(folder: Path) -> list[str]:
    lines(folder / "red/corpus.jsonl", {**PAGE, "boxes": SECRET})
    lines(folder / "answers.jsonl", {"id": "q", "answer": "12"})
    return ["mia", "--red", "red", "--answers", "answers.jsonl", "--out", "run"]


@DOOR.case(3, silent=("holds no question",))
def _no_membership(folder: Path) -> list[str]:
    lines(folder / "red/corpus.jsonl", {name: value for name, value in PAGE.items() if name != "membership"})
    lines(folder / "answers.jsonl", {"id": "q", "answer": "12"})
    return ["mia", "--red", "red", "--answers", "answers.jsonl", "--out", "run"]


@DOOR.case(2, says=("line 3", "membership"))
def _two_labels_for_a_provider(folder: Path) -> list[str]:
    question = {**PAGE["questions"][0], "id": "x"}
    two_providers(folder, {**PAGE, "id": "x_1", "membership": "non_member", "questions": [question]})
    return CHECK


@DOOR.case(4, says=("nowhere", "does not exist"))
def _missing(folder: Path) -> list[str]:
    return ["data", "check", "nowhere"]


@DOOR.case(4, says=("nowhere", "does not exist"))
def _missing_for_an_audit(folder: Path) -> list[str]:
    lines(folder / "answers.jsonl", {"id": "q", "answer": "12"})
    return ["mia", "--red", "nowhere", "--answers", "answers.jsonl", "--out", "run"]


@DOOR.case(4)
def _a_name_of_5000_letters(folder: Path) -> list[str]:
    return ["data", "check", "x" * 5000]


@DOOR.case(2, says=("red", "no corpus"))
def _a_folder_of_nothing(folder: Path) -> list[str]:
    (folder / "red").mkdir()
    return CHECK


@DOOR.case(0)
def _a_split_a_page(folder: Path) -> list[str]:
    question = PAGE["questions"][0]
    rows = [
        {**PAGE, "id": f"{at}_1", "split": f"part {at}", "questions": [{**question, "id": f"{at}"}]}
        for at in range(10_000)
    ]
    lines(folder / "red/corpus.jsonl", *rows)
    return CHECK


@DOOR.case(0, 1, 3)
def _a_page_of_400_kilobytes(folder: Path) -> list[str]:
    words = ["ab" * 500] * 400
    page = {**PAGE, "words": [*words, "x" * 1000], "boxes": [[0, 0, 1, 1]] * 401}
    question = {**PAGE["questions"][0], "key": "provider_name", "answers": ["x" * 900 + "ab" * 50]}
    two_providers(folder, {**page, "id": "x_1", "provider": "Acme", "questions": [{**question, "id": "x"}]})
    ids = [f"{page}_1/scrubbed/provider_name" for page in "abx"]
    lines(folder / "answers.jsonl", *({"id": name, "answer": "acme"} for name in ids))
    return ["memorize", "--red", "red", "--answers", "answers.jsonl", "--no-unprompted", "--out", "run"]


@DOOR.case(0, silent=(SECRET,))
def _an_export_of_pages_that_are_left_out(folder: Path) -> list[str]:
    two_providers(
        folder, {**PAGE, "id": SECRET, "provider": "Third", "questions": [{**PAGE["questions"][0], "id": "x"}]}
    )
    return ["memorize", "--red", "red", "--export", "vendor"]
