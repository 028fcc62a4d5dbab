"""Records that were left out: the first by position or pseudonym, and all of them counted by reason."""

from pfl_audit.core.problems import OTHERS, count_problems, list_problems
from pfl_audit.core.redaction import Redactor
from pfl_audit.documents.corpus import Problem

HIDE, SHOW = Redactor("salt"), Redactor("salt", reveal=True)


def test_all_are_counted_by_reason_and_the_first_are_listed() -> None:
    read = [Problem(f"corpus.jsonl line {at}", "it has no answer") for at in range(150)]
    pages = [Problem(f"acme_{at}", "its image cannot be opened") for at in range(70)]
    assert count_problems(read, pages, HIDE) == {"it has no answer": 150, "its image cannot be opened": 70}
    assert len(list_problems(read, pages, HIDE)) == 100
    assert count_problems([], [], HIDE) == {}


def test_a_reason_that_names_its_page_is_masked_in_the_counts_as_in_the_list() -> None:
    read, pages = [Problem("acme_1", "acme_1.png is no image")], [Problem("acme_2", "acme_2.png is no image")]
    assert count_problems(read, pages, HIDE) == {"it cannot be read": 2}
    assert not any("acme" in line for line in list_problems(read, pages, HIDE))
    assert count_problems(read, pages, SHOW) == {"acme_1.png is no image": 1, "acme_2.png is no image": 1}


def test_many_reasons_are_counted_together() -> None:
    read = [Problem(f"corpus.jsonl line {at}", f"{at} words but {at + 1} boxes") for at in range(30)]
    read += [Problem("corpus.jsonl line 31", "it has no answer"), Problem("corpus.jsonl line 32", "it has no answer")]
    found = count_problems(read, [], HIDE)
    assert next(iter(found.items())) == ("it has no answer", 2)
    assert (len(found), found[OTHERS], sum(found.values())) == (21, 11, 32)
    assert max(map(len, count_problems([Problem("x", "y" * 1000)], [], HIDE))) == 150
