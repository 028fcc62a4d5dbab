"""Forms, in each of the formats, that no form has ever looked like."""

from __future__ import annotations

import json
from pathlib import Path

from tests.hostile.case import Door
from tests.hostile.second import FIXTURES, form, forms, lines, picture, write

DOOR = Door("second: forms")


@DOOR.case(0, 3)
def _fields_that_begin_before_the_page_and_end_nowhere(folder: Path) -> list[str]:
    spans = [(-1, 2), (0, 10**18), (2, 1), (1, 1), (0.5, 2), (True, 2), ("0", "3"), (None, 3), (0, 10**400), ([0], {})]
    rows = [
        form(number, fields=[{"id": "a", "label": "answer", "start": start, "stop": stop}], links=[])
        for number, (start, stop) in enumerate(spans, 100)
    ]
    same = {"id": "a", "label": "\ud800\x1b[2J", "start": 0, "stop": 3}
    return forms(folder, [*rows, form(300, fields=[same] * 500, links=[["a", "a"]] * 500), form(301, fields="a")])


@DOOR.case(0, 3)
def _thousands_of_pages_of_one_text(folder: Path) -> list[str]:
    words = [f"w{number}" for number in range(12)]
    boxes = [[0.1, 0.1, 0.2, 0.2]] * 12
    field = [{"id": "a", "label": "answer", "start": 0, "stop": 3}]
    rows = [{"id": f"{n}_1", "words": [*words[:11], f"x{n}"], "boxes": boxes, "fields": field} for n in range(6000)]
    return forms(folder, rows)


@DOOR.case(0, 2, 3)
def _a_page_with_half_a_million_words(folder: Path) -> list[str]:
    count = 500_000
    boxes = [[0, 0, 1, 1]] * count
    return forms(
        folder, [form(1, words=["x"] * count, boxes=boxes), form(2, words=["I\u0307" + "\u0301" * 10**6, "", "\x00"])]
    )


@DOOR.case(0, 2, 3)
def _annotations_of_every_wrong_kind(folder: Path) -> list[str]:
    box = [1, 1, 9, 9]
    entity = {
        "id": 0,
        "label": "question",
        "box": box,
        "words": [{"text": "a", "box": box}],
        "linking": [[0, 0], [0, 9]],
    }
    odd = [
        {"form": [entity | {"id": {"a": 1}}, entity | {"id": "0"}]}, {"form": entity}, [], {"form": [[entity]]}, 7,
        {"form": [entity | {"words": [{"text": None, "box": [float("nan")] * 4}, 7, None, {"text": ["a"]}]}]},
        {"form": [entity | {"box": [10**400] * 4, "linking": [[[0], {}], None, [0], "00"]}] * 2},
        {"form": [entity | {"label": ["answer"], "linking": {"a": 1}, "words": {"text": "a"}}]},
    ]  # fmt: skip
    for number, found in enumerate(odd):
        write(folder / "funsd" / "annotations" / f"{number}.json", json.dumps(found))
        picture(folder / "funsd" / "images" / f"{number}.png", 10, 10)
    write(folder / "funsd" / "annotations" / "deep.json", '{"form": ' + "[" * 100_000)
    write(folder / "funsd" / "annotations" / "empty.json", "")
    write(folder / "funsd" / "annotations" / "a\npfl-audit: all is well.json", "{}")
    (folder / "funsd" / "annotations" / "ring.json").symlink_to("ring.json")
    (folder / "funsd" / "annotations" / "folder.json").mkdir()
    return ["data", "check", "funsd"]


@DOOR.case(0, 2, 3)
def _a_receipt_that_repeats_one_letter(folder: Path) -> list[str]:
    place = folder / "sroie"
    write(place / "box" / "a.txt", "10,10,60,10,60,20,10,20,a\n" * 8000)
    fields = {"company": "a " * 4000 + "b", "date": "", "address": "a" * 3999 + "c", "total": "- - -"}
    write(place / "entities" / "a.txt", json.dumps(fields))
    write(place / "box" / "b.txt", "1e999,nan,-1,,,,,,\n9,9\n" + "9" * 5000 + ",1,1,1,1,1,1,1,x\n\xff\x00,,,\n")
    write(place / "entities" / "b.txt", json.dumps({"company": ["a"], "date": None, "total": 10**400}))
    for name in "ab":
        picture(place / "img" / f"{name}.jpg", 80, 80)
    return ["data", "check", "sroie"]


@DOOR.case(0, 2, 3, absent=("outside.jpg", "outside.png", "outside_1.jpg", "outside"))
def _invoices_whose_names_lead_elsewhere(folder: Path) -> list[str]:
    place = folder / "fcc"
    ids = ["../../outside", "/tmp/../outside", "", ".", "a" * 400, "\x00", "\ud800", 7, None, ["x"], "a\nb"]
    token = {"text": "a", "bbox": [0, 0, 1, 1], "box": [0, 0, 1, 1]}
    rows = [{"id": key, "filename": key, "image": f"../../{key}", "words": [token], "ocr": [[token]]} for key in ids]
    lines(place / "docs.jsonl", [*rows, [], 7, None, {"id": {"a": []}}])
    picture(place / "images" / "a.png")
    picture(folder / "outside.jpeg")
    return ["data", "import", "fcc-adbuy", "fcc", "--out", "out/deep/corpus"]


@DOOR.case(0, 1, 2, 3, absent=("outside.jpg", "outside"))
def _forms_whose_ids_and_labels_are_programs(folder: Path) -> list[str]:
    evil = "<script>alert(1)</script>\x1b[2J"
    fields = [{"id": f"../../{evil}", "label": f"answer{evil}", "start": 1, "stop": 3}]
    rows = []
    for number, part in enumerate(("private", "public", "validation") * 4):
        words = ["Name:", f"Ada{number}", f"Moon{number * 7}", *[f"w{number}x{word}" for word in range(9)]]
        boxes = [[0.1, 0.1, 0.2, 0.2]] * len(words)
        own = {"words": words, "boxes": boxes, "fields": fields, "links": []}
        rows.append(form(number, id=f"../../outside{number}_1", part=part, image="images/a.png", **own))
    forms(folder, rows)
    picture(folder / "forms" / "images" / "a.png")
    few = ["--fields", "1", "--attempts", "1", "--candidates", "2", "--no-control"]
    models = ["--model", str(FIXTURES / "layoutlm-private"), "--public", str(FIXTURES / "layoutlm-public")]
    return ["reconstruct", "--forms", "forms", *models, *few, "--out", "out/run", "--reveal", "-q"]
