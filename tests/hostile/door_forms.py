"""Folders of forms: forms.jsonl, FUNSD, SROIE and fcc-adbuy."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.hostile.case import Case, Door
from tests.hostile.files import FORM, lines, png, sparse

DOOR = Door("forms")
SECRET = "SecretName"
CHECK = ["data", "check", "forms"]


def _form(row: object) -> Callable[[Path], list[str]]:
    def make(folder: Path) -> list[str]:
        lines(folder / "forms/forms.jsonl", FORM, row)
        return CHECK

    return make


FIELD = FORM["fields"][0]
FORMS: dict[str, Any] = {
    "a field beyond the words": {"fields": [{**FIELD, "id": SECRET, "stop": 9}]},
    "a field of long numbers": {"fields": [{**FIELD, "start": 10**4000, "stop": 10**4001}]},
    "a field of a name": {"fields": [{**FIELD, "start": SECRET}]},
    "a field that is a text": {"fields": [SECRET]},
    "a million fields": {"fields": [FIELD] * 200_000},
    "fields that share a word": {"fields": [{**FIELD, "id": SECRET}, {**FIELD, "id": "g"}]},
    "two fields of one id": {"fields": [{**FIELD, "id": SECRET, "start": 0, "stop": 1}, {**FIELD, "id": SECRET}]},
    "a label of a megabyte": {"fields": [{**FIELD, "label": SECRET * 100_000}]},
    "a link to a field that is not there": {"links": [["f", SECRET]]},
    "a link of a megabyte": {"links": [["f", SECRET * 100_000]]},
    "a part of its own": {"part": SECRET},
    "a part of a list": {"part": [SECRET]},
    "a box of a name": {"boxes": [[0, 0, 1, SECRET], [0, 0, 1, 1]]},
    "a box of a long number": {"boxes": [[10**400, 0, 1, 1], [0, 0, 1, 1]]},
    "a box beyond the page": {"boxes": [[0, 0, 9, 9], [0, 0, 1, 1]]},
    "a million boxes": {"boxes": [[0, 0, 1, 1]] * 1_000_000},
    "an image with a zero byte": {"image": f"{SECRET}\0"},
    "no words": {"words": [" ", " "]},
}
for _name, _change in FORMS.items():
    DOOR.cases.append(Case(_name, DOOR.name, _form({**FORM, "id": "b_1", **_change}), (0,), (), (SECRET,)))


@DOOR.case(2, says=("forms.jsonl", "one JSON object a line"))
def _pretty_printed(folder: Path) -> list[str]:
    (folder / "forms").mkdir()
    (folder / "forms/forms.jsonl").write_text(json.dumps([FORM] * 50, indent=2))
    return CHECK


@DOOR.case(2, says=("forms.jsonl", "ZIP"))
def _a_zip(folder: Path) -> list[str]:
    (folder / "forms").mkdir()
    with zipfile.ZipFile(folder / "forms/forms.jsonl", "w") as archive:
        archive.writestr("forms.jsonl", json.dumps(FORM))
    return CHECK


@DOOR.case(2, says=("forms.zip", "ZIP"))
def _a_zip_to_reconstruct(folder: Path) -> list[str]:
    with zipfile.ZipFile(folder / "forms.zip", "w") as archive:
        archive.writestr("forms.jsonl", json.dumps(FORM))
    return _reconstruct("forms.zip")


@DOOR.case(4, says=("nowhere", "does not exist"))
def _missing(folder: Path) -> list[str]:
    return _reconstruct("nowhere")


@DOOR.case(2, says=("forms", "holds no forms"))
def _a_folder_of_nothing(folder: Path) -> list[str]:
    (folder / "forms").mkdir()
    return _reconstruct("forms")


@DOOR.case(2, says=("forms", "can be used"), silent=(SECRET,))
def _nothing_usable(folder: Path) -> list[str]:
    lines(folder / "forms/forms.jsonl", {**FORM, "boxes": SECRET})
    return _reconstruct("forms")


@DOOR.case(0)
def _a_byte_order_mark(folder: Path) -> list[str]:
    lines(folder / "forms/forms.jsonl", "\ufeff" + json.dumps(FORM))
    return CHECK


@DOOR.case(0)
def _3000_near_duplicates(folder: Path) -> list[str]:
    words = [f"w{at}" for at in range(400)]
    rows = []
    for number in range(3000):
        changed = [word if (at + number) % 60 else f"v{number}" for at, word in enumerate(words)]
        rows.append({**FORM, "id": f"{number}_1", "words": changed, "boxes": [[0, 0, 1, 1]] * 400})
    lines(folder / "forms/forms.jsonl", *rows)
    return CHECK


@DOOR.case(0)
def _3000_pages_that_are_nearly_near_duplicates(folder: Path) -> list[str]:
    words = [f"w{at}" for at in range(200)]
    rows = [
        {**FORM, "id": f"{number}_1", "words": [*words, *(f"v{number}-{at}" for at in range(60))]}
        for number in range(3000)
    ]
    lines(folder / "forms/forms.jsonl", *({**row, "boxes": [[0, 0, 1, 1]] * 260} for row in rows))
    return CHECK


def _reconstruct(forms: str) -> list[str]:
    return ["reconstruct", "--model", "model", "--public", "public", "--forms", forms, "--out", "run"]


def _funsd(annotations: bytes | Callable[[], bytes]) -> Callable[[Path], list[str]]:
    def make(folder: Path) -> list[str]:
        for name in ("annotations", "images"):
            (folder / "forms" / name).mkdir(parents=True)
        (folder / "forms/images/SecretName.png").write_bytes(png(100, 100))
        data = annotations if isinstance(annotations, bytes) else annotations()
        (folder / "forms/annotations/SecretName.json").write_bytes(data)
        return CHECK

    return make


WORD = {"text": "Acme", "box": [0, 0, 9, 9]}
ENTITY = {"id": 0, "label": "answer", "words": [WORD], "linking": []}


def _entity(**change: object) -> bytes:
    return json.dumps({"form": [{**ENTITY, **change}]}).encode()


FUNSD: dict[str, bytes | Callable[[], bytes]] = {
    "no JSON": b"{SecretName",
    "not UTF-8": b'{"form": "\xff"}',
    "a list": b"[]",
    "nested 10^6 deep": b"[" * 1_000_000,
    "an integer of 5,000 digits": b'{"form": ' + b"9" * 5000 + b"}",
    "an entity that is a text": b'{"form": ["SecretName"]}',
    "a word that is a text": _entity(words=[SECRET]),
    "a word without a box": _entity(words=[{"text": SECRET}]),
    "a box of a name": _entity(words=[{**WORD, "box": [0, 0, 9, SECRET]}]),
    "a box beyond the page": _entity(words=[{**WORD, "box": [0, 0, 9e9, 9]}]),
    "a million words": lambda: _entity(words=[WORD] * 300_000),
    "a word of a megabyte": _entity(words=[{**WORD, "text": SECRET * 100_000}]),
    "links of numbers": _entity(linking=3),
    "links of an object": _entity(linking=[{SECRET: 1}]),
    "an id of a list": _entity(id=[SECRET]),
    "no label": _entity(label=None),
}
for _name, _data in FUNSD.items():
    says = ("forms", "holds no record that can be used")
    DOOR.cases.append(Case(f"FUNSD: {_name}", DOOR.name, _funsd(_data), (3,), says, (SECRET,)))


@DOOR.case(3, says=("forms",))
def _funsd_of_a_gigabyte(folder: Path) -> list[str]:
    arguments = _funsd(b"")(folder)
    sparse(folder / "forms/annotations/SecretName.json", 1 << 30)
    return arguments


def _sroie(boxes: str | bytes, values: str) -> Callable[[Path], list[str]]:
    def make(folder: Path) -> list[str]:
        for name in ("box", "entities", "img"):
            (folder / "forms" / name).mkdir(parents=True)
        (folder / "forms/img/SecretName.png").write_bytes(png(100, 100))
        data = boxes if isinstance(boxes, bytes) else boxes.encode()
        (folder / "forms/box/SecretName.txt").write_bytes(data)
        (folder / "forms/entities/SecretName.txt").write_text(values)
        return CHECK

    return make


LINE = "0,0,9,0,9,9,0,9,"
GOOD = json.dumps({"company": "Acme", "total": "9.00"})
SROIE: dict[str, tuple[str | bytes, str]] = {
    "a corner of a name": (f"0,0,{SECRET},0,9,9,0,9,Acme", GOOD),
    "a corner beyond floats": (f"0,0,1e999,0,9,9,0,9,{SECRET}", GOOD),
    "a corner of 5,000 digits": (f"0,0,{'9' * 5000},0,9,9,0,9,{SECRET}", GOOD),
    "one huge line": (LINE + "a " * 3_000_000, GOOD),
    "a million lines": ((LINE + "a\n") * 500_000, GOOD),
    "a word of three megabytes": (LINE + SECRET * 300_000, GOOD),
    "entities of lists": (LINE + "Acme", json.dumps({"company": [SECRET]})),
    "an entity of a megabyte": (LINE + "Acme", json.dumps({"company": SECRET * 100_000})),
    "entities that are no JSON": (LINE + "Acme", SECRET),
    "entities nested 10^6 deep": (LINE + "Acme", "[" * 1_000_000),
    "no words": ("", GOOD),
}
for _name, (_boxes, _values) in SROIE.items():
    says = ("forms", "holds no record that can be used")
    DOOR.cases.append(Case(f"SROIE: {_name}", DOOR.name, _sroie(_boxes, _values), (3,), says, (SECRET,)))


@DOOR.case(0, silent=(SECRET,))
def _sroie_whose_total_may_stand_in_thousands_of_places(folder: Path) -> list[str]:
    return _sroie("\n".join([LINE + "total 9.00 " * 90] * 100), GOOD)(folder)


@DOOR.case(3, says=("forms",), silent=(SECRET,))
def _sroie_of_a_gigabyte(folder: Path) -> list[str]:
    arguments = _sroie("", GOOD)(folder)
    sparse(folder / "forms/box/SecretName.txt", 1 << 30)
    return arguments


FCC: dict[str, Any] = {
    "id": SECRET,
    "image": "images/a.png",
    "width": 100,
    "height": 100,
    "station": "KAAA",
    "fields": {"contract_num": "C1"},
    "spans": {"contract_num": [[1, 2]]},
    "words": [["KAAA", 0, 0, 9, 9], ["C1", 9, 0, 19, 9]],
}
RECORDS: dict[str, Any] = {
    "no size": {"width": 0},
    "a size of a name": {"width": SECRET},
    "a size of a long number": {"width": 10**400},
    "words of texts": {"words": [SECRET]},
    "words of lists": {"words": [[[SECRET], 0, 0, 9, 9]]},
    "a box of a name": {"words": [["KAAA", 0, 0, 9, SECRET]]},
    "a box of an object": {"words": [["KAAA", 0, 0, 9, {SECRET: 1}]]},
    "a million words": {"words": [["a", 0, 0, 9, 9]] * 300_000},
    "fields of a list": {"fields": [SECRET]},
    "spans of a list": {"spans": [SECRET]},
    "a value of a megabyte": {"fields": {"contract_num": SECRET * 100_000}},
    "an image outside": {"image": f"../{SECRET}"},
    "an image with a zero byte": {"image": f"{SECRET}\0"},
    "no image": {"image": None},
    "a station of a list": {"station": [SECRET]},
    "a station of a megabyte": {"station": SECRET * 100_000},
}


def _fcc(row: dict[str, Any], arguments: list[str]) -> Callable[[Path], list[str]]:
    def make(folder: Path) -> list[str]:
        lines(folder / "forms/docs.jsonl", row)
        return arguments

    return make


IMPORT = ["data", "import", "fcc-adbuy", "forms", "--out", "new"]
for _name, _change in RECORDS.items():
    DOOR.cases.append(
        Case(f"FCC: {_name}", DOOR.name, _fcc({**FCC, **_change}, IMPORT), (3,), ("forms", "no question"), (SECRET,))
    )


@DOOR.case(0, 3, silent=(SECRET,))
def _fcc_spans_of_100_000_places(folder: Path) -> list[str]:
    places = [[at, at + 1] for at in range(0, 200_000, 2)]
    return _fcc({**FCC, "spans": {"contract_num": places}}, CHECK)(folder)


@DOOR.case(0)
def _fcc_of_10_000_stations(folder: Path) -> list[str]:
    rows = ({**FCC, "id": f"{at}", "station": f"K{at // 2}", "words": FCC["words"]} for at in range(20_000))
    lines(folder / "forms/docs.jsonl", *rows)
    return IMPORT


@DOOR.case(4, says=("nowhere", "does not exist"))
def _fcc_that_is_missing(folder: Path) -> list[str]:
    return ["data", "import", "fcc-adbuy", "nowhere", "--out", "new"]


@DOOR.case(2, says=("forms", "holds no docs.jsonl"))
def _fcc_without_its_file(folder: Path) -> list[str]:
    (folder / "forms").mkdir()
    return IMPORT
