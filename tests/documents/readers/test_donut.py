"""Donut's training format."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from pfl_audit.documents.document import Membership
from pfl_audit.documents.readers.donut import READER
from pfl_audit.documents.readers.jsonl import READER as JSONL
from pfl_audit.documents.writers import write_jsonl
from pfl_audit.errors import AuditError

MENU = {"menu": [{"nm": "Tea", "cnt": 2}, {"nm": "Cake"}], "total": {"total_price": "9.00"}, "void": None}


def line(name: str, truth: Any, **columns: Any) -> str:
    return json.dumps({"file_name": name, "ground_truth": json.dumps(truth), **columns})


def write(folder: Path, *lines: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "metadata.jsonl").write_text("\n".join(lines))
    for at, name in enumerate("ab"):
        Image.new("L", (100, 50), 100 + at).save(folder / f"{name}.png")


def test_a_tree_becomes_fields_with_paths(tmp_path: Path) -> None:
    write(tmp_path / "train", line("a.png", {"gt_parse": MENU}))
    write(tmp_path / "test", line("b.png", {"gt_parse": MENU}, provider="Acme", membership="member"))
    assert READER.recognises(tmp_path)
    corpus = READER.read(tmp_path, "all")
    fields = [(query.key, query.answers[0]) for query in corpus.queries if query.document.split == "blue_train"]
    assert fields == [("menu.nm", "Tea"), ("menu.cnt", "2"), ("menu.nm", "Cake"), ("total.total_price", "9.00")]
    assert corpus.queries[-1].question == "What is the total total price?"
    assert corpus.membership["Acme"] is Membership.MEMBER
    assert [page.split for page in READER.read(tmp_path, "red").documents] == ["red_test"]
    assert all(page.words == () for page in corpus.documents)
    write_jsonl(corpus, tmp_path / "out")
    assert JSONL.read(tmp_path / "out", "all").digest == corpus.digest


def test_questions_of_docvqa(tmp_path: Path) -> None:
    parses = [{"question": "What is due?", "answer": "7"}, {"question": "What is due?", "answer": "$7"}]
    write(tmp_path, line("a.png", {"gt_parses": [*parses, {"question": "Who?", "answer": "Acme"}]}))
    asked = {query.question: query.answers for query in READER.read(tmp_path, "all").queries}
    assert asked == {"What is due?": ("7", "$7"), "Who?": ("Acme",)}


def test_words_of_cord(tmp_path: Path) -> None:
    quad = {"x1": 10, "y1": 5, "x2": 20, "y2": 5, "x3": 20, "y3": 10, "x4": 10, "y4": 10}
    truth = {
        "gt_parse": MENU,
        "meta": {"image_size": {"width": 100, "height": 50}},
        "valid_line": [{"words": [{"text": "Tea", "quad": quad}]}],
    }
    write(tmp_path, line("a.png", truth))
    (page,) = READER.read(tmp_path, "all").documents
    assert page.words == ("Tea",)
    assert np.allclose(page.boxes, [[0.1, 0.1, 0.2, 0.2]])


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        ("[1]", "not a JSON object"),
        (line("c.png", {"gt_parse": MENU}), "its page image is missing"),
        (line("../a.png", {"gt_parse": MENU}), "points outside of the corpus"),
        (line("b.png", {"gt_parse": {}}), "no question about it has an answer"),
        (line("b.png", {"gt_parses": 3}), "gt_parses is not a list"),
        (line("b.png", {}), "'gt_parse' is missing"),
        (line("a.png", {"gt_parse": MENU}), "an earlier page has its id"),
        (line("b.png", {"gt_parse": {"a": "Zyxwv" * 999}}), "holds a text of more than"),
        (line("b.png", {"gt_parse": MENU}, provider=["Zyxwv"]), "provider is not a text"),
        (line("b.png", {"gt_parse": MENU}, member="Zyxwv"), "membership is none of"),
        (line("b.png", {"gt_parse": MENU, "meta": 3, "valid_line": ["Zyxwv"]}), "not of the right form"),
        ('{"file_name": "b.png", "ground_truth": "{Zyxwv"}', "not valid JSON"),
        (json.dumps({"file_name": "b.png", "ground_truth": '{"gt_parse":' + "[" * 50 + "]" * 50 + "}"}), "too deeply"),
    ],
)
def test_a_line_that_cannot_be_used(tmp_path: Path, bad: str, reason: str) -> None:
    write(tmp_path, line("a.png", {"gt_parse": MENU}), bad)
    corpus = READER.read(tmp_path, "all")
    assert [page.id for page in corpus.documents] == ["a.png_1"]
    (problem,) = corpus.problems
    assert reason in problem.reason
    assert problem.record == "metadata.jsonl line 2"
    assert "Zyxwv" not in problem.reason


def test_two_memberships_of_a_provider(tmp_path: Path) -> None:
    rows = (line(f"{name}.png", {"gt_parse": MENU}, provider="P", member=name == "a") for name in "ab")
    write(tmp_path, *rows)
    with pytest.raises(AuditError, match="another membership"):
        READER.read(tmp_path, "all")
