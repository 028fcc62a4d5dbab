import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from pfl_audit.documents.forms.readers import open_forms
from pfl_audit.errors import AuditError


def entity(number: int, label: str, text: str, links: list[list[int]] | None = None) -> dict[str, Any]:
    words = [{"text": word, "box": [10 * at, 10, 10 * at + 8, 20]} for at, word in enumerate(text.split(" "))]
    return {"id": number, "label": label, "text": text, "words": words, "linking": links or [], "box": [0, 0, 9, 9]}


PAGE = [
    entity(0, "header", "THE FORM", [[0, 1]]),
    entity(1, "question", "Name:", [[0, 1], [1, 2], [1, 4]]),
    entity(2, "answer", "Zyxwv Q.", [[1, 2]]),
    entity(3, "other", "page 1"),
    entity(4, "answer", "", [[1, 4]]),
]


def write(folder: Path, name: str, form: object) -> None:
    for part in ("annotations", "images"):
        (folder / part).mkdir(parents=True, exist_ok=True)
    (folder / f"annotations/{name}.json").write_text(json.dumps({"form": form}))
    Image.new("L", (100, 50), 255).save(folder / f"images/{name}.png")


def test_entities_with_words_become_fields(tmp_path: Path) -> None:
    write(tmp_path, "a_b", PAGE)
    corpus = open_forms(tmp_path)
    (form,) = corpus.forms
    assert (form.id, form.document.file, corpus.format) == ("a_b_1", "a_b", "funsd")
    assert [(field.id, field.label, form.text(field)) for field in form.fields] == [
        ("0", "header", "THE FORM"),
        ("1", "question", "Name:"),
        ("2", "answer", "Zyxwv Q."),
        ("3", "other", "page 1"),
    ]
    assert form.links == (("0", "1"), ("1", "2"))
    np.testing.assert_allclose(form.document.boxes[1], [0.1, 0.2, 0.18, 0.4], rtol=1e-6)


def test_links_go_from_the_one_that_names(tmp_path: Path) -> None:
    write(tmp_path, "a", [entity(7, "answer", "x", [[7, 8], [7, 7]]), entity(8, "question", "y", [[8, 7]])])
    assert open_forms(tmp_path).forms[0].links == (("8", "7"),)


def test_both_folders_of_the_data_set_are_read(tmp_path: Path) -> None:
    write(tmp_path / "dataset/training_data", "b", PAGE)
    write(tmp_path / "dataset/testing_data", "a", PAGE)
    corpus = open_forms(tmp_path)
    assert [form.id for form in corpus.forms] == ["b_1", "a_1"]
    assert corpus.parts is None
    assert [form.id for form in open_forms(tmp_path / "dataset/testing_data").forms] == ["a_1"]


def test_a_name_that_stands_in_both_folders(tmp_path: Path) -> None:
    write(tmp_path / "training_data", "a", PAGE)
    write(tmp_path / "testing_data", "a", PAGE)
    corpus = open_forms(tmp_path)
    assert len(corpus.forms) == 1
    assert corpus.problems[0].reason == "an earlier form has its id"


@pytest.mark.parametrize(
    ("form", "reason"),
    [
        ([entity(1, "answer", "")], "it holds no words"),
        ([entity(1, "answer", "x"), entity(1, "answer", "y")], "two fields have the same id"),
        ([{**PAGE[2], "words": [{"text": "Zyxwv", "box": [0, 0, 900, 9]}]}], "word 1 lies outside of the page"),
        ([{**PAGE[2], "words": [{"text": "Zyxwv", "box": [0, 0]}]}], "word 1 is not four numbers"),
        ([{**PAGE[2], "words": [{"text": 3, "box": [0, 0, 1, 1]}]}], "the text of a word is not a text"),
        ([{**PAGE[2], "words": ["Zyxwv"]}], "it is not made of JSON objects"),
        ([{**PAGE[2], "linking": [[1]]}], "linking does not hold pairs of entity ids"),
        ([{**PAGE[2], "linking": [[1, None]]}], "the id of an entity is not a number"),
        ([{**PAGE[2], "label": 3}], "label is not a text"),
        ([{"id": 1}], "the field 'words' is missing"),
        ("Zyxwv", "form is not a list"),
    ],
)
def test_a_damaged_page_is_listed(tmp_path: Path, form: object, reason: str) -> None:
    write(tmp_path, "bad", form)
    write(tmp_path, "good", PAGE)
    corpus = open_forms(tmp_path)
    assert [form.id for form in corpus.forms] == ["good_1"]
    (problem,) = corpus.problems
    assert problem.record == "bad.json"
    assert reason in problem.reason
    assert "Zyxwv" not in problem.reason


def test_a_page_without_a_picture_is_listed(tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        write(tmp_path, name, PAGE)
    (tmp_path / "images/a.png").unlink()
    (tmp_path / "images/b.png").write_bytes(b"no picture")
    (tmp_path / "annotations/c.json").write_text("{")
    with pytest.raises(AuditError, match=r"holds no form that can be used: its page image is missing"):
        open_forms(tmp_path)
    write(tmp_path, "d", PAGE)
    reasons = [problem.reason for problem in open_forms(tmp_path).problems]
    assert reasons[:2] == ["its page image is missing", "its page image cannot be read"]
    assert "is not valid JSON" in reasons[2]
