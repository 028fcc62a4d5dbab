"""Answers of the children that read pages, which a hostile document may have taken over."""

from pathlib import Path
from typing import Any

import pytest

from pfl_audit.importing.pages import SourceFile
from pfl_audit.importing.reading import ReadingSettings, read_documents
from pfl_audit.progress import Silent
from tests.importing.drawn import pdf

PAGE: dict[str, object] = {
    "picture": b"\xff\xd8", "lossy": True, "words": ["one", "two"], "boxes": [[0, 0, 0.1, 0.1]] * 2, "scan": False,
    "hidden": 0, "covered": 0, "undrawn": 0,
}  # fmt: skip


class Forger:
    """Children that answer as they like."""

    def __init__(self, count: object, page: object, ocr: object) -> None:
        self._answers = {"count": count, "page": page}
        self._ocr = ocr

    def call(self, what: str | bytes, *_: object) -> Any:
        found = self._answers[what] if isinstance(what, str) else self._ocr
        return dict(found) if isinstance(found, dict) else found

    def end(self) -> None: ...


def read(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    count: object = 1,
    page: object = PAGE,
    ocr: object = None,
) -> tuple[int, list[str]]:
    """Number of pages that are read, and the reasons why others are not."""
    child = Forger(count, page, ocr)
    monkeypatch.setattr("pfl_audit.importing.reading.new_children", lambda: {"pages": child, "ocr": child})
    files = [SourceFile(pdf(folder / "a.pdf", ["one"]), "a.pdf")]
    pages, problems = read_documents(
        files, folder / "out", folder / "cache", ReadingSettings(ocr="never" if ocr is None else "always"), Silent()
    )
    return len(pages), [problem.reason for problem in problems]


def test_a_page_of_the_right_form_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert read(tmp_path, monkeypatch) == (1, [])
    assert read(tmp_path, monkeypatch, page=PAGE | {"words": None, "boxes": None}, ocr=[["a"], [[0, 0, 1, 1]]]) == (
        1,
        [],
    )


@pytest.mark.parametrize(
    "page",
    [
        None,
        3,
        [],
        {},
        {name: PAGE[name] for name in PAGE if name != "undrawn"},
        PAGE | {"more": 1},
        PAGE | {"picture": "text"},
        PAGE | {"picture": None},
        PAGE | {"lossy": 1},
        PAGE | {"scan": "yes"},
        PAGE | {"hidden": -1},
        PAGE | {"covered": True},
        PAGE | {"undrawn": 0.0},
        PAGE | {"hidden": 1 << 40},
        PAGE | {"words": "one"},
        PAGE | {"words": 7},
        PAGE | {"boxes": {"a": 1}},
    ],
)
def test_a_forged_page_is_left_out_and_nothing_of_it_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, page: object
) -> None:
    assert read(tmp_path, monkeypatch, page=page) == (0, ["it is damaged, or no picture or PDF"])
    assert not (tmp_path / "out").exists()
    assert not (tmp_path / "cache").exists()


@pytest.mark.parametrize(
    "forged",
    [
        {"words": ["one", {}]},
        {"words": ["one"]},
        {"boxes": [[0, 0, 1, 1], "x"]},
        {"boxes": [[0, 0, 1, 1], [0, 0, 9, 9]]},
        {"words": [["one"], ["two"]]},
    ],
)
def test_forged_words_are_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, forged: dict[str, object]) -> None:
    assert read(tmp_path, monkeypatch, page=PAGE | forged) == (0, ["its words cannot be used"])


@pytest.mark.parametrize("count", [None, "3", 0, -1, 1 << 40, True, 2.0, [1]])
def test_a_forged_number_of_pages_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: object) -> None:
    assert read(tmp_path, monkeypatch, count=count) == (0, ["it is damaged, or no picture or PDF"])


@pytest.mark.parametrize(
    ("ocr", "reason"),
    [
        (3, "it is damaged, or no picture or PDF"),
        ([["a"]], "it is damaged, or no picture or PDF"),
        (["a", [[0, 0, 1, 1]]], "it is damaged, or no picture or PDF"),
        ([["a"], [[0, 0, 1]]], "its words cannot be used"),
        ([[{}], [[0, 0, 1, 1]]], "its words cannot be used"),
    ],
)
def test_forged_words_of_an_engine_are_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ocr: object, reason: str
) -> None:
    assert read(tmp_path, monkeypatch, ocr=ocr) == (0, [reason])
