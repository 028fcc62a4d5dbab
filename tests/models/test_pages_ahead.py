"""Pages are made in a second thread: the same ones, in bounded number; the thread ends with the caller."""

import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from pfl_audit.attacks.questions.calls import Asked, respond
from pfl_audit.documents.document import Document
from pfl_audit.documents.images import PageImage
from pfl_audit.documents.readers import open_corpus
from pfl_audit.errors import UnanswerableError
from pfl_audit.models.calls import InTurn
from pfl_audit.models.open import open_model
from pfl_audit.models.pages_ahead import PagesAhead, PreparingModel

FIXTURES = Path(__file__).parents[2] / "fixtures"
WAIT = 30
"""Seconds that a test waits for a thread at most."""


@pytest.fixture
def pages(tmp_path: Path) -> list[Document]:
    found = []
    for number in range(6):
        path = tmp_path / f"{number}.png"
        Image.new("L", (8, 8), number).save(path)
        found.append(Document(str(number), "provider", (), np.zeros((0, 4), np.float32), PageImage(path)))
    return found


def threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("pages")]


def test_a_page_is_made_ahead_in_another_thread_and_once(pages: list[Document]) -> None:
    made: dict[str, str] = {}
    done = threading.Event()

    def make(page: Document) -> str:
        assert page.id not in made
        made[page.id] = threading.current_thread().name
        if len(made) == 2:
            done.set()
        return f"page {page.id}"

    ahead = PagesAhead(make, 1)
    ahead.prepare(pages[:2])
    assert done.wait(WAIT)
    assert [ahead(page) for page in pages[:3]] == ["page 0", "page 1", "page 2"]
    assert [name.startswith("pages") for name in made.values()] == [True, True, False]
    ahead.prepare(())
    assert not threads()


def test_no_more_pages_wait_than_memory_is_given_for(pages: list[Document]) -> None:
    begun = list[str]()
    idle = threading.Semaphore(0)

    def make(page: Document) -> str:
        begun.append(page.id)
        idle.release()
        return page.id

    ahead = PagesAhead(make, 1 << 30)
    ahead.prepare(pages)
    assert idle.acquire(timeout=WAIT)
    assert idle.acquire(timeout=WAIT)
    assert begun == ["0", "1"]
    assert ahead(pages[0]) == "0"
    assert idle.acquire(timeout=WAIT)
    assert begun == ["0", "1", "2"]
    ahead.prepare(())


def test_a_thread_that_is_behind_delays_no_call(pages: list[Document]) -> None:
    stuck, go = threading.Event(), threading.Event()

    def make(page: Document) -> str:
        if page.id == "0":
            stuck.set()
            assert go.wait(WAIT)
        return page.id

    ahead = PagesAhead(make, 1)
    ahead.prepare(pages[:2])
    assert stuck.wait(WAIT)
    assert ahead(pages[1]) == "1"
    go.set()
    assert ahead(pages[0]) == "0"
    ahead.prepare(())


def test_an_error_is_raised_where_the_page_is_asked_for(pages: list[Document]) -> None:
    def make(page: Document) -> str:
        raise UnanswerableError(page.id, "", "cannot be read")

    ahead = PagesAhead(make, 1)
    ahead.prepare(pages)
    with pytest.raises(UnanswerableError, match="3"):
        ahead(pages[3])
    ahead.prepare(())
    assert not threads()


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", ["vt5-finetuned", "donut"])
def test_answers_are_the_same_and_the_thread_ends_with_the_caller(name: str) -> None:
    queries = open_corpus(FIXTURES / "red", "red").queries[:6]
    model = open_model(str(FIXTURES / name))
    assert isinstance(model, PreparingModel)
    alone = [one for query in queries for one in open_model(str(FIXTURES / name)).respond([query])]
    each = InTurn(model).each([Asked((query,), respond) for query in queries])
    first = next(each)
    assert threads()
    each.close()  # type: ignore[attr-defined]
    assert not threads()
    again = dict(InTurn(model).each([Asked((query,), respond) for query in queries]))
    assert [again[at] for at in range(len(queries))] == [[one] for one in alone]
    assert first == (0, [alone[0]])
    assert not threads()


@pytest.mark.parametrize("content", [b"no picture", None])
def test_a_page_that_cannot_be_read_is_the_answer_of_its_call_alone(
    content: bytes | None, make_checkpoint: Callable[[int], Path], corpus_folder: Path, tmp_path: Path
) -> None:
    some = open_corpus(corpus_folder, "red").queries[:2]
    broken = tmp_path / "broken.png"
    if content is not None:
        broken.write_bytes(content)
    bad = replace(some[0], document=replace(some[0].document, image=PageImage(broken)))
    model = open_model(str(make_checkpoint(0)))
    found = dict(InTurn(model).each([Asked((query,), respond) for query in (some[1], bad, some[0])]))
    assert isinstance(found[1], UnanswerableError)
    assert [type(found[at]) for at in (0, 2)] == [list, list]
