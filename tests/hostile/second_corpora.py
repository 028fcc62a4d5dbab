"""Corpora in the safe format and provider maps that say what no corpus says."""

from __future__ import annotations

import json
import os
from pathlib import Path

from tests.hostile.case import Door
from tests.hostile.second import corpus, lines, page, picture, records, sparse, write

DOOR = Door("second: corpora")
_EVIL = "<script>alert(1)</script>\x1b[2J\u202eAcme"


def _asked(folder: Path, pages: list[object], answer: str = "acme media") -> list[str]:
    """Recorded answers to the questions of these pages."""
    corpus(folder, pages)
    ids = [question["id"] for found in pages if isinstance(found, dict) for question in found["questions"]]
    lines(folder / "answers.jsonl", [{"id": query, "answer": answer} for query in ids])
    return ["mia", "--answers", "answers.jsonl", "--red", "red", "--check", "membership.azk", "--out", "out", "-q"]


@DOOR.case(0, 3)
def _boxes_of_every_wrong_kind(folder: Path) -> list[str]:
    wrong = [float("nan"), float("inf"), -1e308, 10**400, "0.1", None, [0.1], {"x": 1}, True]
    pages = [page(number, boxes=[[0.1, 0.1, 0.2, value]] * 4) for number, value in enumerate(wrong, 2)]
    more = [page(50, boxes=[]), page(51, boxes=[[0.9, 0.9, 0.1, 0.1]] * 4), page(52, boxes="boxes"), page(53, words={})]
    return corpus(folder, [page(1), *pages, *more])


@DOOR.case(0, 2, 3)
def _half_characters_and_noughts_in_every_text(folder: Path) -> list[str]:
    odd = "\ud800\x00\udfff"
    question = {"id": odd, "key": "provider_name", "question": f"Who {odd}?", "answers": ["acme media", odd]}
    pages = [
        page(number, id=f"{odd}{number}_1", provider=f"Acme {odd}", words=["Acme", odd, odd, "é" * 9], split=odd,
             questions=[question]) for number in range(1, 9)
    ]  # fmt: skip
    corpus(folder, [*pages, page(9)])
    return ["memorize", "--red", "red", "--export", "out"]


@DOOR.case(0, 1, 2, 3)
def _a_right_answer_as_long_as_a_book(folder: Path) -> list[str]:
    book = "ab" * 150_000
    pages = [page(number) for number in range(1, 9)]
    for found in pages:
        found["questions"][0]["answers"] = [book + "c"]
    return _asked(folder, list(pages), answer="ba" * 150_000)


@DOOR.case(0, 1, 2, 3)
def _a_page_of_one_word_and_a_value_that_repeats_it(folder: Path) -> list[str]:
    count = 20_000
    question = {"id": "q", "key": "provider_name", "question": "Who?", "answers": ["goarn " * 2_000]}
    words, boxes = ["goarn"] * count, [[0.1, 0.1, 0.2, 0.2]] * count
    corpus(folder, [page(1, provider="goarn " * 2_000, words=words, boxes=boxes, questions=[question]), page(2)])
    return ["memorize", "--red", "red", "--export", "out", "-q"]


@DOOR.case(0, 3, silent=("root:x:0",))
def _pictures_that_lie_elsewhere(folder: Path) -> list[str]:
    picture(folder / "outside.png")
    places = [
        "/etc/passwd", "../outside.png", "images/../../outside.png", "images", "images/", ".", "", "\x00", "a" * 5000,
        "images/" + "b/" * 3000 + "x.png", "file:///etc/passwd", "http://127.0.0.1:9/x.png", 7, ["x"], None,
    ]  # fmt: skip
    return corpus(folder, [page(99), *[page(number, image=place) for number, place in enumerate(places, 1)]])


@DOOR.case(0, 2, 3)
def _lines_that_are_no_objects(folder: Path) -> list[str]:
    arguments = corpus(folder, [page(1)])
    deep = '{"id": ' + "[" * 100_000
    odd = [deep, "1" * 100_000, '{"id": ' + "9" * 100_000 + "}", "null", "[]", '"text"', '{"id": NaN}', "", "\x00", "{"]
    with (folder / "red" / "corpus.jsonl").open("ab") as file:
        file.write("\n".join(odd).encode() + b"\n\xff\xfe{\x00}\x00\n\xef\xbb\xbf{}\r\n\xed\xa0\x80\n")
        file.write('{"id": "a\u2028b\u0085c_1"}\n'.encode())
    return arguments


@DOOR.case(0, 2, 3)
def _a_terabyte_without_the_end_of_a_line(folder: Path) -> list[str]:
    arguments = corpus(folder, [page(1)])
    file = folder / "red" / "corpus.jsonl"
    sparse(file, 1 << 40, file.read_bytes())
    return arguments


@DOOR.case(0, 2, 3)
def _provider_maps_of_the_wrong_shape(folder: Path) -> list[str]:
    row = {"image_name": "x_1", "question": "?", "answers": "a", "ocr_tokens": [], "ocr_normalized_boxes": []}
    write(folder / "red" / "red_test_positive.npy", records([row]))
    picture(folder / "red" / "x_1.png")
    write(folder / "red" / "doc2provider.json", '{"x": {"provider": ["a", {"b": NaN}]}, "x": null, "x": 1e999}')
    write(folder / "red" / "provider2docs.json", json.dumps({"P": {"x": [["x"]]}, "": "x", "Q": 7}))
    write(folder / "red" / "data_points.json", json.dumps({"client_0": {"P": [-1, 10**30, "1", None]}, "client_": [1]}))
    write(folder / "red" / "SaTML_PMIA_label.json", "[" * 50_000)
    return ["data", "check", "red"]


@DOOR.case(2, 3)
def _folders_that_hold_themselves(folder: Path) -> list[str]:
    place = folder / "data"
    place.mkdir()
    for name in "abcd":
        (place / name).symlink_to(".")
    (place / "up").symlink_to("..")
    (place / "ring.npy").symlink_to("ring.npy")
    here = Path.cwd()
    try:
        os.chdir(place)
        for _ in range(60):  # a path of 12,000 bytes
            Path("n" * 200).mkdir()
            os.chdir("n" * 200)
        Path("blue_train_client_0.npy").write_bytes(b"x")
    finally:
        os.chdir(here)
    return ["data", "check", "data"]


@DOOR.case(0, 1, 3, silent=("\u202e",))
def _a_company_whose_name_is_a_program(folder: Path) -> list[str]:
    return [*_asked(folder, [page(number, provider=f"{_EVIL}{number}") for number in range(1, 21)]), "--reveal"]
