"""A model that does what a test tells it to."""

from collections.abc import Callable, Sequence
from typing import Any

from pfl_audit.documents.document import Query
from pfl_audit.documents.images import PageImage
from pfl_audit.models.protocol import Capability, Response


class FakeModel:
    """Answers with a function, and remembers who asked what."""

    family = "fake"

    def __init__(
        self,
        answer: Callable[[Query], Response] = lambda query: Response(query.answers[0], 0.9, 0.1, 3),
        name: str = "fake",
    ) -> None:
        self.answer = answer
        self.seen: list[str] = []
        self.batches: list[int] = []
        self._opened: set[PageImage] = set()
        self.fingerprint = name
        self.capabilities = frozenset(Capability)

    def describe(self) -> dict[str, Any]:
        return {"family": self.family, "path": "-", "sha256": self.fingerprint, "parameters": 1, "notes": []}

    def cost(self, query: Query) -> int:
        return len(query.document.words) + 1

    def batch_size(self, cost: int) -> int:
        return 4

    def respond(self, queries: Sequence[Query]) -> list[Response]:
        for query in queries:
            image = query.document.image
            if image is not None and image not in self._opened:  # as a model does, which fails where it cannot
                image.open()
                self._opened.add(image)
        self.batches.append(len(queries))
        self.seen += [query.id for query in queries]
        return [self.answer(query) for query in queries]
