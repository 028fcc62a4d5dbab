from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageDraw

from pfl_audit.documents.corpus import Corpus
from pfl_audit.documents.document import Document, Query
from pfl_audit.documents.images import PageImage
from pfl_audit.documents.keys import key_of_question
from pfl_audit.documents.scrubbing.normalization import normalize_text
from pfl_audit.documents.scrubbing.ocr_lines import OcrLine
from pfl_audit.documents.scrubbing.questions import ABSENT, IMAGE_ONLY, MISPLACED, scrubbed_questions

Page = Callable[..., Document]


def test_one_question_a_page_without_its_answer(red: Corpus) -> None:
    test = scrubbed_questions(red, "provider_name", seed=0)
    assert len(test.queries) + len(test.skipped) == len(red.documents)
    assert len({query.document.id for query in test.queries}) == len(test.queries)
    for query in test.queries:
        assert key_of_question(query.question) == "provider_name"
        target = normalize_text(query.answers[0])
        assert not any(target in normalize_text(word) for word in query.document.words)
        assert query.document.image is not None
        assert query.document.image.blurred


def test_pages_whose_name_is_a_word_mark_are_listed(red: Corpus) -> None:
    skipped = scrubbed_questions(red, "provider_name", seed=0).skipped
    assert skipped
    assert {problem.reason for problem in skipped} == {ABSENT, IMAGE_ONLY}


def test_a_name_that_only_a_domain_gives_is_left_out(page: Page) -> None:
    corpus = named(page("Total", "www.acme.com"))
    test = scrubbed_questions(corpus, "provider_name", seed=0)
    assert [problem.reason for problem in test.skipped] == [IMAGE_ONLY]
    corpus = named(page("Total", "Acme", "www.acme.com"))
    (query,) = scrubbed_questions(corpus, "provider_name", seed=0).queries
    assert query.document.words == ("Total",)


def test_a_page_without_a_picture_shows_no_name(page: Page) -> None:
    corpus = named(replace(page("Total", "www.acme.com"), image=None))
    assert len(scrubbed_questions(corpus, "provider_name", seed=0).queries) == 1


def test_other_keys_need_no_whole_mention(page: Page) -> None:
    document = page("Total", "www.acme.com")
    corpus = Corpus((Query("a", document, "What is the email?", ("billing@acme.com",), "provider_email"),))
    assert len(scrubbed_questions(corpus, "provider_email", seed=0).queries) == 1


def test_lines_that_are_read_in_the_picture_are_blurred(page: Page) -> None:
    document = page("Total", "www.acme.com")
    logo, other = (0.1, 0.1, 0.4, 0.2), (0.1, 0.5, 0.4, 0.6)
    lines = [OcrLine("ACME", logo), OcrLine("Total 4", other)]
    test = scrubbed_questions(named(document), "provider_name", seed=0, read=lambda pages: {document.id: lines})
    (query,) = test.queries
    assert query.document.words == ("Total",)
    assert query.document.image is not None
    assert logo in query.document.image.blurred
    assert other not in query.document.image.blurred


def test_a_picture_that_does_not_show_the_name_leaves_the_page_out(page: Page) -> None:
    document = page("Total", "www.acme.com")
    lines = [OcrLine("Total 4", (0.1, 0.5, 0.4, 0.6))]
    test = scrubbed_questions(named(document), "provider_name", seed=0, read=lambda pages: {document.id: lines})
    assert [problem.reason for problem in test.skipped] == [IMAGE_ONLY]


def test_a_page_whose_name_is_in_the_picture_alone_can_be_tested_once_it_was_read(page: Page) -> None:
    document = page("Total")
    lines = [OcrLine("ACME", (0.1, 0.1, 0.4, 0.2))]
    assert scrubbed_questions(named(document), "provider_name", seed=0).skipped[0].reason == ABSENT
    test = scrubbed_questions(named(document), "provider_name", seed=0, read=lambda pages: {document.id: lines})
    (query,) = test.queries
    assert query.document.words == ("Total",)
    assert query.document.image is not None
    assert query.document.image.blurred == ((0.1, 0.1, 0.4, 0.2),)


def named(document: Document) -> Corpus:
    return Corpus((Query("a", document, "Who is the vendor?", ("Acme",), "provider_name"),))


def test_a_value_that_nobody_gives_is_listed(red: Corpus) -> None:
    test = scrubbed_questions(red, "tax_number", seed=0)
    reasons = {problem.reason for problem in test.skipped}
    assert "the corpus does not give the value" in reasons


def test_blue_says_what_red_does_not(page: Page) -> None:
    document = page("mail", "x@acme.com")
    asked = Corpus((Query("a", document, "What is the tax number?", ("1",), "tax_number"),))
    other = replace(document, id="blue_1")
    blue = Corpus((Query("b", other, "What is the vendor's email address?", ("x@acme.com",), "provider_email"),))
    assert not scrubbed_questions(asked, "provider_email", seed=0).queries
    (query,) = scrubbed_questions(asked, "provider_email", seed=0, blue=blue).queries
    assert query.answers == ("x@acme.com",)
    assert query.document.words == ("mail",)


@pytest.mark.parametrize("keep", [lambda n: True, lambda n: n % 2 == 0])
def test_a_pages_question_depends_on_the_page_alone(red: Corpus, keep: Callable[[int], bool]) -> None:
    ids = {document.id for number, document in enumerate(red.documents) if keep(number)}
    some = red.where(lambda query: query.document.id in ids)
    all_questions = {query.id: query.question for query in scrubbed_questions(red, "provider_name", seed=3).queries}
    for query in scrubbed_questions(some, "provider_name", seed=3).queries:
        assert all_questions[query.id] == query.question
    other_seed = {query.id: query.question for query in scrubbed_questions(red, "provider_name", seed=4).queries}
    assert all_questions != other_seed


@pytest.mark.parametrize("places", ["the ink", "elsewhere"])
def test_a_value_that_is_not_where_its_boxes_are_is_no_evidence(page: Page, tmp_path: Path, places: str) -> None:
    picture = Image.new("L", (400, 400), 255)
    ImageDraw.Draw(picture).text((40, 40), "Acme Total", fill=0, font_size=30)
    picture.save(tmp_path / "a.png")
    box = [0.1, 0.1, 0.5, 0.2] if places == "the ink" else [0.1, 0.6, 0.5, 0.7]
    document = page("Acme", "Total")
    document = replace(document, image=PageImage(tmp_path / "a.png"), boxes=np.array([box, box], dtype=np.float32))
    test = scrubbed_questions(named(document), "provider_name", seed=0)
    assert [problem.reason for problem in test.skipped] == ([] if places == "the ink" else [MISPLACED])
