"""A corpus of read pages and a table."""

from pathlib import Path

from pfl_audit.documents.document import as_boxes
from pfl_audit.importing.folder import build_corpus
from pfl_audit.importing.labels import Row
from pfl_audit.importing.questions import default_questions
from pfl_audit.importing.reading import ReadPage


def test_a_key_that_no_id_has_room_for_is_a_problem() -> None:
    page = ReadPage("a.pdf", 1, Path("a.jpg"), ("12",), as_boxes([[0, 0, 1, 1]], 1), by_ocr=False)
    row = Row("a.pdf", "Acme", values={"total": ("12",), "x" * 999: ("12",)})
    corpus = build_corpus({"a.pdf": [page]}, {"a.pdf": row}, default_questions(), 0)
    assert [query.key for query in corpus.queries] == ["total"]
    assert [problem.reason for problem in corpus.problems] == ["its name and a key have more than 1,000 letters"]


def test_person_and_group_of_a_row_are_those_of_its_pages() -> None:
    page = ReadPage("a.pdf", 1, Path("a.jpg"), ("12",), as_boxes([[0, 0, 1, 1]], 1), by_ocr=False)
    row = Row("a.pdf", "Acme", values={"total": ("12",)}, person="Ada", group="Holding")
    corpus = build_corpus({"a.pdf": [page]}, {"a.pdf": row}, default_questions(), 0)
    assert [(made.person, made.group) for made in corpus.documents] == [("Ada", "Holding")]
