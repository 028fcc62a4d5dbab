from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageDraw, ImageFont

from pfl_audit.attacks.questions.calls import Asked, respond
from pfl_audit.documents.corpus import Corpus
from pfl_audit.documents.document import Document, Query
from pfl_audit.documents.images import PageImage
from pfl_audit.documents.scrubbing.ocr_lines import value_boxes
from pfl_audit.documents.scrubbing.questions import scrubbed_questions
from pfl_audit.documents.scrubbing.residual import ResidualKind, residual_identifiers_in_image
from pfl_audit.errors import AuditError, UnanswerableError, UsageError
from pfl_audit.models.page_reader import PageReader, PageReaderOpening, lines_query, picture_lines, picture_query
from pfl_audit.models.processes import Processes

NAME = "Golden Harbour"


@pytest.fixture
def query(tmp_path: Path) -> Query:
    """A page whose name is only in the picture, twice."""
    picture = Image.new("RGB", (600, 300), "white")
    draw = ImageDraw.Draw(picture)
    for top in (40, 200):
        draw.text((40, top), NAME, fill="black", font=ImageFont.load_default(32))
    picture.save(tmp_path / "page.png")
    page = Document("d1", NAME, (), np.zeros((0, 4), np.float32), PageImage(tmp_path / "page.png"), "red_test")
    return Query("q1", page, "Who?", (NAME,), "provider_name")


def look(reader: PageReader, query: Query) -> list[ResidualKind]:
    (response,) = reader.respond([picture_query(query)])
    return [clue.kind for clue in residual_identifiers_in_image(response.answer, NAME)]


@pytest.mark.slow
def test_what_the_blur_left_is_read(query: Query) -> None:
    reader = PageReader()
    assert query.document.image is not None
    half = query.document.image.blur([(0.0, 0.0, 1.0, 0.4)])
    whole = half.blur([(0.0, 0.5, 1.0, 1.0)])
    kinds = {
        blurred: look(reader, replace(query, document=replace(query.document, image=image)))
        for blurred, image in (("nothing", query.document.image), ("half", half), ("whole", whole))
    }
    assert kinds == {"nothing": [ResidualKind.PICTURE] * 4, "half": [ResidualKind.PICTURE] * 2, "whole": []}


@pytest.mark.slow
@pytest.mark.usefixtures("warm_workers")
def test_another_process_reads_the_same(query: Query) -> None:
    reader, asked = PageReader(), [picture_query(query), lines_query(query.document)]
    processes = Processes(1)
    calls = processes.calls(PageReaderOpening(reader.fingerprint))
    assert list(calls.each([Asked(tuple(asked), respond)])) == [(0, reader.respond(asked))]
    with pytest.raises(AuditError, match="the OCR engine has changed"):
        list(processes.calls(PageReaderOpening("another version")).each([Asked(tuple(asked), respond)]))


def test_lines_come_with_boxes_that_blur_the_name(query: Query) -> None:
    reader = PageReader()
    (response,) = reader.respond([lines_query(query.document)])
    lines = picture_lines(response.answer)
    boxes = value_boxes(lines, NAME)
    assert len(boxes) == 2
    assert all(0 <= left < right <= 1 and 0 <= top < low <= 1 for left, top, right, low in boxes)
    assert abs(boxes[0][1] - 40 / 300) < 0.08
    corpus = Corpus((query,))
    (asked,) = scrubbed_questions(
        corpus, "provider_name", seed=0, read=lambda pages: {page.id: lines for page in pages}
    ).queries
    assert look(reader, asked) == []


def test_a_reader_that_does_not_say_where_lines_are_gives_none() -> None:
    assert picture_lines("Golden Harbour\nTotal") == []


def test_the_same_picture_is_one_question_whatever_its_words_are(query: Query) -> None:
    other = replace(query, document=replace(query.document, words=("a",), boxes=np.zeros((1, 4), np.float32)))
    assert picture_query(other).document.digest == picture_query(query).document.digest


def test_a_page_that_is_no_picture(query: Query, tmp_path: Path) -> None:
    reader = PageReader()
    (tmp_path / "page.png").write_bytes(b"none")
    with pytest.raises(UnanswerableError, match="no image"):
        reader.respond([picture_query(query)])
    (response,) = reader.respond([replace(query, document=replace(query.document, image=None))])
    assert response.answer == ""


def test_without_rapidocr_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "rapidocr", None)
    with pytest.raises(UsageError, match="needs rapidocr"):
        PageReader()
