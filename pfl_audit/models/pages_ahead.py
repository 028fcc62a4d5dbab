"""Pages that are read and resized in a second thread, while the network works on others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Generic, Protocol, TypeVar, runtime_checkable

from pfl_audit.documents.document import Document

T = TypeVar("T")
_BYTES = 256 << 20
"""Most bytes of pages that wait for the network."""


@runtime_checkable
class PreparingModel(Protocol):
    """A model that can prepare pages while it works on others."""

    def prepare(self, documents: Sequence[Document]) -> None:
        """Begin to prepare pages in a second thread, in order; without documents, end the thread.

        Raises:
            UnanswerableError: The picture of a page cannot be read.
        """


@runtime_checkable
class AboutPages(Protocol):
    """A call of a model that states which pages it needs."""

    @property
    def documents(self) -> Sequence[Document]:
        """The pages that the call needs, in order."""


class PagesAhead(Generic[T]):
    """The network's inputs of pages, made when they are asked for or before that in a second thread.

    Only ``make`` runs in the second thread, which begins with the first page that is prepared and ends with ``prepare``
    of none. A page that it has not begun is made by the caller, so that no call waits for other pages. The methods are
    not safe for several callers, and a process must end the second thread before it forks.

    Args:
        make: Makes the input of a page. An error of the second thread is raised to the caller that asks for the page.
        size: Bytes of one input; as many wait as fit in 256 MiB, and at least two.
    """

    def __init__(self, make: Callable[[Document], T], size: int) -> None:
        self._make, self._most = make, max(2, _BYTES // size)
        self._due: dict[str, Document] = {}
        self._begun: dict[str, Future[T]] = {}
        self._thread: ThreadPoolExecutor | None = None

    def __call__(self, document: Document) -> T:
        """The network's input of a page."""
        name = page_name(document)
        self._due.pop(name, None)
        begun = self._begun.pop(name, None)
        self._begin()
        return self._make(document) if begun is None or begun.cancel() else begun.result()

    def prepare(self, documents: Sequence[Document]) -> None:
        """As of PreparingModel; pages that were begun before and are not among these are dropped."""
        pages = {page_name(document): document for document in documents}
        for name in self._begun.keys() - pages.keys():
            self._begun.pop(name).cancel()
        self._due = {name: document for name, document in pages.items() if name not in self._begun}
        if not pages and self._thread is not None:
            self._thread.shutdown(cancel_futures=True)
            self._thread = None
        self._begin()

    def _begin(self) -> None:
        """Give the thread as many pages as may wait."""
        while self._due and len(self._begun) < self._most:
            if self._thread is None:
                self._thread = ThreadPoolExecutor(1, "pages")
            name = next(iter(self._due))
            self._begun[name] = self._thread.submit(self._make, self._due.pop(name))


def pages_of(call: object) -> Sequence[Document]:
    """The pages of a call; none if it does not state them."""
    return call.documents if isinstance(call, AboutPages) else ()


def page_name(document: Document) -> str:
    """Identifier of a page's picture; "" for a page without one."""
    return document.image.digest if document.image else ""
