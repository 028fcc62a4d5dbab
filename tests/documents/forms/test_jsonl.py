import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from pfl_audit.documents.forms.form import FormCorpus
from pfl_audit.documents.forms.readers import open_forms
from pfl_audit.documents.forms.readers.jsonl import write_forms
from pfl_audit.errors import AuditError

FIELD = {"id": "q", "label": "question", "start": 0, "stop": 1}
ANSWER = {"id": "a", "label": "answer", "start": 1, "stop": 3}
ROW = {
    "id": "x_1",
    "words": ["Name:", "Zyxwv", "Q."],
    "boxes": [[0, 0, 0.3, 0.1], [0.4, 0, 0.5, 0.1], [0.6, 0, 0.7, 0.1]],
    "fields": [ANSWER, FIELD],
    "links": [["q", "a"], ["q", "a"]],
}


def write(folder: Path, *rows: object) -> Path:
    text = "\n".join(row if isinstance(row, str) else json.dumps(row) for row in rows)
    (folder / "forms.jsonl").write_text(text)
    return folder


def read(folder: Path, *rows: object) -> FormCorpus:
    return open_forms(write(folder, *rows))


def test_fields_stand_in_the_order_of_their_words(tmp_path: Path) -> None:
    (form,) = read(tmp_path, ROW).forms
    assert [(field.id, form.text(field)) for field in form.fields] == [("q", "Name:"), ("a", "Zyxwv Q.")]
    assert form.links == (("q", "a"),)
    assert form.document.provider == ""


def test_round_trip_keeps_everything(tmp_path: Path) -> None:
    (tmp_path / "in/images").mkdir(parents=True)
    Image.new("L", (20, 30), 200).save(tmp_path / "in/images/page.png")
    rows = [{**ROW, "image": "images/page.png", "provider": "Acme", "part": "private"}]
    rows.append({**ROW, "id": "y_1", "links": [], "part": "public"})
    corpus = read(tmp_path / "in", *rows)
    write_forms(corpus, tmp_path / "out")
    again = open_forms(tmp_path / "out/forms.jsonl")
    assert again.digest == corpus.digest
    assert again.parts == corpus.parts == {"x_1": "private", "y_1": "public"}
    assert [form.document.provider for form in again.forms] == ["Acme", ""]
    assert again.forms[0].document.image is not None
    assert again.forms[0].document.image.path == tmp_path / "out/images/page.png"


def test_parts_count_only_where_every_form_has_one(tmp_path: Path) -> None:
    corpus = read(tmp_path, {**ROW, "part": "public"}, {**ROW, "id": "y_1"})
    assert corpus.parts is None
    assert [problem.reason for problem in corpus.problems] == ["only 1 of 2 forms name their part: none is taken"]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"fields": [FIELD, {**ANSWER, "id": "q"}]}, "two fields have the same id"),
        ({"fields": [FIELD, {**ANSWER, "start": 0}]}, "two fields share word 1"),
        ({"fields": [{**ANSWER, "stop": 4}]}, "field 1 does not lie among the words"),
        ({"fields": [{**ANSWER, "start": -1}]}, "field 1 does not lie among the words"),
        ({"fields": [{**ANSWER, "start": 2, "stop": 2}]}, "field 1 does not lie among the words"),
        ({"fields": [{**ANSWER, "start": 1.0}]}, "start and stop of a field are not whole numbers"),
        ({"fields": [{**ANSWER, "start": True}]}, "start and stop of a field are not whole numbers"),
        ({"fields": [{**ANSWER, "label": ""}]}, "label is empty"),
        ({"fields": [{**ANSWER, "id": None}]}, "a field has no id"),
        ({"fields": ["a"]}, "a field is not a JSON object"),
        ({"fields": {"a": 1}}, "fields is not a list"),
        ({"words": ["Name:", " ", ""]}, "field 1 holds no text"),
        ({"words": ["", " ", ""], "fields": []}, "it holds no words"),
        ({"links": [["q", "z"]]}, "a link names a field that is not there"),
        ({"links": [["q", "q"]]}, "a link names a field that is not there"),
        ({"links": [["q"]]}, "a link is not a pair of field ids"),
        ({"boxes": [[0, 0, 1, 1], [0, 0, 1, 1.2], [0, 0, 1, 1]]}, "the box of word 2 lies outside of the page"),
        ({"boxes": [[-3, 0, 1, 1]] * 3}, "the box of word 1 lies outside of the page"),
        ({"boxes": [[0, 0, 1, "Zyxwv"]] * 3}, "the box of word 1 is not four numbers"),
        ({"boxes": [[0, 0, 1, float("nan")]] * 3}, "the box of word 1 is not four numbers"),
        ({"boxes": [[0, 0, 1, 1]]}, "3 words but 1 boxes"),
        ({"part": "test"}, "part is none of validation, public, private"),
        ({"part": ["private"]}, "part is none of validation, public, private"),
        ({"image": "../secret.png"}, "image points outside of the corpus"),
        ({"image": "none.png"}, "its page image is missing"),
        ({"id": "y_1"}, "an earlier form has its id"),
        ({"words": ["\ud800", "b", "c"]}, "a text in it is not valid Unicode (a lone surrogate)"),
    ],
)
def test_a_bad_form_is_named_and_left_out(tmp_path: Path, change: dict[str, object], reason: str) -> None:
    corpus = read(tmp_path, {**ROW, "id": "y_1"}, {**ROW, **change})
    assert [form.id for form in corpus.forms] == ["y_1"]
    assert [(problem.record, problem.reason) for problem in corpus.problems] == [("forms.jsonl line 2", reason)]
    assert "Zyxwv" not in reason


@pytest.mark.parametrize("line", ["{", "[1]", "3", json.dumps({k: v for k, v in ROW.items() if k != "fields"})])
def test_lines_that_are_no_forms(tmp_path: Path, line: str) -> None:
    corpus = read(tmp_path, line, ROW)
    assert len(corpus.forms) == 1
    assert len(corpus.problems) == 1


def test_a_box_may_reach_a_little_over_the_edge(tmp_path: Path) -> None:
    boxes = [[-0.02, 0, 0.3, 1.04], [0, 0, 1, 1], [0, 0, 1, 1]]
    (form,) = read(tmp_path, {**ROW, "boxes": boxes}).forms
    np.testing.assert_allclose(form.document.boxes[0], [0, 0, 0.3, 1])


def test_nothing_to_open(tmp_path: Path) -> None:
    with pytest.raises(AuditError, match="does not exist"):
        open_forms(tmp_path / "nowhere")
    with pytest.raises(AuditError, match=r"holds no forms in a known format"):
        open_forms(tmp_path)
    with pytest.raises(AuditError, match=r"holds no form that can be used: forms\.jsonl line 1: it is not a JSON"):
        read(tmp_path, "[1]")
    (tmp_path / "forms.jsonl").write_bytes(b"\xff")
    with pytest.raises(AuditError, match="cannot be read as UTF-8"):
        open_forms(tmp_path)
