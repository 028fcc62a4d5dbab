"""Pages that are read and resized in a second thread, while the network works on others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Generic, Protocol, TypeVar, runtime_checkable

from pfl_audit.documents.document import Document

T = TypeVar("T")
_BYTES = 256 << 20
"""Of pages that wait for the network."""


@runtime_checkable
class PreparingModel(Protocol):
    """A model whose pages can be made ready while it works on others."""

    def prepare(self, documents: Sequence[Document]) -> None:
        """Begin to make pages ready in a second thread, in order; with none, end the thread."""


@runtime_checkable
class AboutPages(Protocol):
    """A call of a model that knows its pages."""

    @property
    def documents(self) -> Sequence[Document]:
        """The pages that the model will look at, in order."""


class PagesAhead(Generic[T]):
    """What a network takes of a page, made where it is asked for, or before that in a second thread.

    Nothing but ``make`` runs in the thread. A page that the thread has not begun is made where it is asked for, so that
    a thread that is behind delays no call.

    Args:
        make: Makes it; what it raises in the thread is raised where the page is asked for.
        size: Bytes of one page; so many are made ahead as fit in 256 MiB, and at least two.
    """

    def __init__(self, make: Callable[[Document], T], size: int) -> None:
        self._make, self._most = make, max(2, _BYTES // size)
        self._due: dict[str, Document] = {}
        self._begun: dict[str, Future[T]] = {}
        self._thread: ThreadPoolExecutor | None = None

    def __call__(self, document: Document) -> T:
        """What the network takes of a page."""
        name = page_name(document)
        self._due.pop(name, None)
        begun = self._begun.pop(name, None)
        self._begin()
        return self._make(document) if begun is None or begun.cancel() else begun.result()

    def prepare(self, documents: Sequence[Document]) -> None:
        """As of PreparingModel; pages that were begun and are none of these are dropped."""
        pages = {page_name(document): document for document in documents}
        for name in self._begun.keys() - pages.keys():
            self._begun.pop(name).cancel()
        self._due = {name: document for name, document in pages.items() if name not in self._begun}
        if not pages and self._thread is not None:
            self._thread.shutdown(cancel_futures=True)
            self._thread = None
        self._begin()

    def _begin(self) -> None:
        """Hand as many pages to the thread as may wait."""
        while self._due and len(self._begun) < self._most:
            if self._thread is None:
                self._thread = ThreadPoolExecutor(1, "pages")
            name = next(iter(self._due))
            self._begun[name] = self._thread.submit(self._make, self._due.pop(name))


def pages_of(call: object) -> Sequence[Document]:
    """The pages of a call; none where it does not know them."""
    return call.documents if isinstance(call, AboutPages) else ()


def page_name(document: Document) -> str:
    """Identifier of a page's picture; "" for a page without one."""
    return document.image.digest if document.image else ""
