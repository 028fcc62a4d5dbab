"""Folders of the DUE benchmark."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from pfl_audit.documents.readers.due import READER


def content(name: str, tool: str = "tesseract", **changes: Any) -> dict[str, Any]:
    """Two pages of 300 by 200 that begin at (10, 20), with two words on the first and one on the second."""
    layer = {
        "tokens": ["Total", "42", "later"],
        "positions": [[40, 40, 70, 60], [100, 120, 160, 160], [0, 0, 1, 1]],
        "structures": {
            "pages": {"structure_value": [[0, 2], [2, 3]], "positions": [[10, 20, 310, 220], [0, 0, 300, 200]]}
        },
    }
    return {"name": name, "contents": [{"tool_name": tool, "tokens_layer": layer | changes}]}


def asked(name: str, *values: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "annotations": [{"id": "1", "key": "What is the total?", "values": list(values)}]}


def write(root: Path, split: str, questions: list[Any], contents: list[Any]) -> None:
    (root / split).mkdir(parents=True)
    for name, rows in (("document.jsonl", questions), ("documents_content.jsonl", contents)):
        (root / split / name).write_text("".join(json.dumps(row) + "\n" for row in rows))


def test_a_document_becomes_a_page_of_its_own_provider(tmp_path: Path) -> None:
    value = {"value": "42", "value_variants": ["42", "$42", "42"]}
    write(tmp_path, "train", [asked("one", value)], [content("one")])
    write(tmp_path, "dev", [asked("two", {"value": "7"})], [content("two")])
    write(tmp_path, "test", [asked("three", {"value": "7"})], [content("three")])
    (tmp_path / "images").mkdir()
    Image.new("RGB", (30, 20)).save(tmp_path / "images/one.png")
    assert READER.recognises(tmp_path)
    assert not READER.recognises(tmp_path / "train")
    first, *_ = READER.read(tmp_path, "all").queries
    assert (first.question, first.answers, first.key) == ("What is the total?", ("42", "$42"), "total_amount")
    page = first.document
    assert (page.id, page.provider, page.words, page.split) == ("one_1", "one", ("Total", "42"), "blue_train")
    assert np.allclose(page.boxes, [[0.1, 0.1, 0.2, 0.2], [0.3, 0.5, 0.5, 0.7]])
    assert page.image is not None
    splits = {part: [page.split for page in READER.read(tmp_path, part).documents] for part in ("blue", "red")}
    assert splits == {"blue": ["blue_train", "blue_valid"], "red": ["red_test"]}


def test_the_other_name_of_the_questions(tmp_path: Path) -> None:
    write(tmp_path, "train", [asked("one", {"value": "42"})], [content("one")])
    (tmp_path / "train/document.jsonl").rename(tmp_path / "train/documents.jsonl")
    assert READER.recognises(tmp_path)
    assert [page.provider for page in READER.read(tmp_path, "all").documents] == ["one"]


def test_the_better_ocr_is_read(tmp_path: Path) -> None:
    row = content("one")
    better = content("one", "microsoft_cv", tokens=["Sum", "43", "x"])["contents"]
    write(tmp_path, "train", [asked("one", {"value": "43"})], [row | {"contents": row["contents"] + better}])
    assert READER.read(tmp_path, "all").documents[0].words == ("Sum", "43")


@pytest.mark.parametrize(
    ("question", "words", "reason"),
    [
        (asked("one", {"value": "7"}), content("two"), "has no questions about it"),
        (asked("one"), content("one"), "no question about it has an answer"),
        (asked("one", {"value": "7"}), {"name": "one", "contents": []}, "it has no words"),
        (asked("one", {"value": "7"}), content("one", positions=[[1, 2, 3]]), "not of the right form"),
        (asked("one", {"value": "7"}), content("one", structures={"pages": {}}), "'structure_value' is missing"),
        (asked("one", {"value": "7"}), content("one", tokens="text"), "tokens is not a list"),
        (asked("one", {"value": "7"}), content("one", positions=[[9e9, 0, 9e9, 1]] * 2), "not shares of the page"),
        (asked("../one", {"value": "7"}), content("../one"), "points outside of the corpus"),
        ("text", content("one"), "not a JSON object"),
        (asked("one", {"other": 1}), content("one"), "not of the right form"),
    ],
)
def test_what_cannot_be_used_is_a_problem(tmp_path: Path, question: Any, words: Any, reason: str) -> None:
    write(tmp_path, "train", [question, asked("good", {"value": "42"})], [words, content("good")])
    corpus = READER.read(tmp_path, "all")
    assert [page.provider for page in corpus.documents] == ["good"]
    assert any(reason in problem.reason for problem in corpus.problems)
    assert "42" not in str(corpus.problems)


def test_a_document_of_two_splits_is_a_problem(tmp_path: Path) -> None:
    for split in ("train", "test"):
        write(tmp_path, split, [asked("a", {"value": "1"})], [content("a")])
    corpus = READER.read(tmp_path, "all")
    assert [page.split for page in corpus.documents] == ["blue_train"]
    assert [problem.reason for problem in corpus.problems] == ["an earlier split has a document of its name"]
