import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from pfl_audit.documents.forms.readers import open_forms
from pfl_audit.documents.forms.readers.sroie import find_value, occurrences
from pfl_audit.errors import AuditError

LINES = ["Zyxwv, SDN BHD", "12 MAIN ROAD,", "50000 TOWN", "DATE:25/12/2018", "TEA 9.00", "TOTAL: RM9.00", "CASH 9.00"]
VALUES = {"company": "ZYXWV SDN. BHD.", "date": "25/12/2018", "address": "12 MAIN ROAD, 50000 TOWN", "total": "9.00"}


def write(
    folder: Path, name: str, lines: list[str], values: object, *, key: str = "entities", end: str = "txt"
) -> None:
    for part in ("box", key, "img"):
        (folder / part).mkdir(parents=True, exist_ok=True)
    rows = [f"10,{9 * n},90,{9 * n},90,{9 * n + 8},10,{9 * n + 8},{line}" for n, line in enumerate(lines)]
    (folder / f"box/{name}.{end}").write_text("\n".join(rows) + "\n\n")
    (folder / f"{key}/{name}.txt").write_text(json.dumps(values))
    Image.new("L", (100, 200), 255).save(folder / f"img/{name}.jpg")


def test_the_words_of_each_entity_are_found(tmp_path: Path) -> None:
    write(tmp_path, "X1", LINES, VALUES)
    corpus = open_forms(tmp_path)
    (form,) = corpus.forms
    assert (form.id, corpus.format, corpus.problems) == ("X1_1", "sroie", ())
    assert {field.label: form.text(field) for field in form.fields} == {
        "company": "Zyxwv, SDN BHD",
        "address": "12 MAIN ROAD, 50000 TOWN",
        "date": "DATE:25/12/2018",
        "total": "9.00",
    }


def test_the_total_is_the_one_behind_that_word() -> None:
    words = ["TEA", "9.00", "SUBTOTAL", "9.00", "TOTAL", "(RM)", ":", "9.00", "CASH", "9.00"]
    assert find_value(words, "$9.00", after="total") == (7, 8)
    assert find_value(words, "9.00") == (1, 2)
    assert find_value(["RM9.00"], "9.00", after="total") == (0, 1)
    assert find_value(words, "8.00", after="total") is None


def test_a_line_shares_its_box_out_by_letters(tmp_path: Path) -> None:
    write(tmp_path, "X1", ["AB CDE  FG"], {})
    document = open_forms(tmp_path).forms[0].document
    assert document.words == ("AB", "CDE", "FG")
    np.testing.assert_allclose(document.boxes[:, [0, 2]], [[0.1, 0.26], [0.34, 0.58], [0.74, 0.9]], rtol=1e-5)


@pytest.mark.parametrize(("root", "key", "end"), [("data", "key", "csv"), ("train", "entities", "txt")])
def test_other_names_of_the_folders(tmp_path: Path, root: str, key: str, end: str) -> None:
    write(tmp_path / root, "000", LINES, VALUES, key=key, end=end)
    assert len(open_forms(tmp_path).forms[0].fields) == 4


def test_an_entity_that_is_not_there_is_a_problem_and_the_others_stay(tmp_path: Path) -> None:
    write(tmp_path, "X1", LINES, {**VALUES, "company": "Secret", "date": "12 main"})
    corpus = open_forms(tmp_path)
    assert [field.label for field in corpus.forms[0].fields] == ["date", "total"]
    assert [(problem.record, problem.reason) for problem in corpus.problems] == [
        ("X1.txt", "the value of company is not among the words"),
        ("X1.txt", "address shares a word with another entity"),
    ]


@pytest.mark.parametrize(
    ("lines", "values", "reason"),
    [
        (["a"], [1], "its entity file is not a JSON object"),
        (["a"], {"total": 9.0}, "the value of total in its entity file is not a text"),
        ([], VALUES, "it holds no words"),
    ],
)
def test_a_damaged_receipt_is_listed(tmp_path: Path, lines: list[str], values: object, reason: str) -> None:
    write(tmp_path, "bad", lines, values)
    write(tmp_path, "good", LINES, VALUES)
    corpus = open_forms(tmp_path)
    assert [form.id for form in corpus.forms] == ["good_1"]
    assert [(problem.record, problem.reason) for problem in corpus.problems] == [("bad.txt", reason)]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("1,2,3", "line 2 of its boxes is not x1,y1,...,x4,y4,text"),
        ("1,2,3,4,5,6,7,Zyxwv,b", "line 2 of its boxes is not x1,y1,...,x4,y4,text"),
        ("1,2,900,2,900,4,1,4,Zyxwv", "the box of word 2 lies outside of the page"),
        ("nan,2,9,2,9,4,nan,4,Zyxwv", "the box of word 2 is not four numbers"),
    ],
)
def test_a_damaged_line_is_named(tmp_path: Path, line: str, reason: str) -> None:
    write(tmp_path, "bad", LINES, VALUES)
    (tmp_path / "box/bad.txt").write_text(f"1,2,9,2,9,4,1,4,a\n{line}\n")
    with pytest.raises(AuditError) as caught:
        open_forms(tmp_path)
    assert caught.value.problem.endswith(f"form that can be used: {reason}")


def test_a_stray_byte_costs_one_letter(tmp_path: Path) -> None:
    write(tmp_path, "X1", LINES, VALUES)
    (tmp_path / "box/X1.txt").write_bytes(b"\xef\xbb\xbf1,2,9,2,9,4,1,4,caf\xe9 TOTAL 9.00\r\n")
    corpus = open_forms(tmp_path)
    assert corpus.forms[0].document.words == ("caf\ufffd", "TOTAL", "9.00")


def test_a_form_feed_ends_no_line(tmp_path: Path) -> None:
    write(tmp_path, "X1", [f"{LINES[0]}\x0c{LINES[1]}", *LINES[2:]], VALUES)
    (form,) = open_forms(tmp_path).forms
    assert form.document.words[:3] == ("Zyxwv,", "SDN", "BHD")


def test_a_receipt_without_its_entities(tmp_path: Path) -> None:
    write(tmp_path, "X1", LINES, VALUES)
    (tmp_path / "entities/X1.txt").unlink()
    with pytest.raises(AuditError, match="its entity file is missing"):
        open_forms(tmp_path)


def test_a_number_is_not_found_inside_another() -> None:
    assert occurrences(["19.00", "9.001", "x"], "9.00") == []
    assert occurrences(["RM9.00x"], "9.00") == [(0, 1)]
    assert occurrences(["a"], "...") == []


@given(st.lists(st.text("ab1. ", min_size=1, max_size=4), min_size=1, max_size=8), st.data())
def test_every_run_of_words_is_found_where_it_stands(words: list[str], data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(words) - 1))
    stop = data.draw(st.integers(start + 1, len(words)))

    def plain(text: str) -> str:
        return "".join(letter for letter in text if letter.isalnum())

    value = "".join(words[start:stop])
    found = occurrences(words, value)
    assert bool(found) == bool(plain(value))
    assert all(plain("".join(words[a:b])) == plain(value) for a, b in found)
