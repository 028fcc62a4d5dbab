from collections.abc import Callable
from dataclasses import replace

import pytest

from pfl_audit.documents.corpus import Corpus
from pfl_audit.documents.document import Document, Query
from pfl_audit.documents.keys import key_of_question
from pfl_audit.documents.scrub import compact
from pfl_audit.documents.scrubbed import scrubbed_questions

Page = Callable[..., Document]


def test_one_question_a_page_without_its_answer(red: Corpus) -> None:
    test = scrubbed_questions(red, "provider_name", seed=0)
    assert len(test.queries) + len(test.skipped) == len(red.documents)
    assert len({query.document.id for query in test.queries}) == len(test.queries)
    for query in test.queries:
        assert key_of_question(query.question) == "provider_name"
        target = compact(query.answers[0])
        assert not any(target in compact(word) for word in query.document.words)
        assert query.document.image is not None
        assert query.document.image.blurred


def test_pages_whose_name_is_a_word_mark_are_listed(red: Corpus) -> None:
    skipped = scrubbed_questions(red, "provider_name", seed=0).skipped
    assert skipped
    assert {problem.reason for problem in skipped} == {
        "the value does not stand among its words, so nothing can be taken off"
    }


def test_a_value_that_nobody_gives_is_listed(red: Corpus) -> None:
    test = scrubbed_questions(red, "tax_number", seed=0)
    reasons = {problem.reason for problem in test.skipped}
    assert "the corpus does not say what the value is" in reasons


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
