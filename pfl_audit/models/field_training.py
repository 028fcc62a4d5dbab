"""What trainable models that take no question share: an example is a page with all its fields."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path

from pfl_audit.documents.document import Query
from pfl_audit.errors import AuditError, UnanswerableError
from pfl_audit.models.question_training import Example, QuestionExamples, QuestionTraining
from pfl_audit.progress import Progress


class FieldTraining(QuestionTraining):
    """A responder that is asked by key as a TrainableModel.

    The example of a query is its whole page with the fields of all queries about it, as such models are trained; a
    page counts once for each of its queries. Queries whose key the model does not have are no field.
    """

    _asked: Mapping[str, Sequence[Query]] = {}

    @abstractmethod
    def require_field(self, query: Query) -> None:
        """Check that the model can give the field of a query."""

    @abstractmethod
    def page_example(self, query: Query, fields: Sequence[Query]) -> Example:
        """The page of a query with its fields.

        Args:
            fields: Queries about the page whose keys the model has; their first accepted answers are the values.
        """

    def example(self, query: Query) -> Example:
        """The page of a query with the fields of all queries that ``examples`` got, or with its own alone."""
        asked = self._asked.get(query.document.id, (query,))
        return self.page_example(query, [one for one in asked if self.has_field(one)])

    def has_field(self, query: Query) -> bool:
        """Whether the model can give the field of a query."""
        try:
            self.require_field(query)
        except UnanswerableError:
            return False
        return True

    def can_write(self, text: str) -> bool:
        """Not any text to a question that is alone: fields of a page are trained together."""
        return False

    def examples(self, queries: Sequence[Query], progress: Progress, cache: Path | None = None) -> QuestionExamples:
        """Group queries by page, tokenise them, and encode or load their pages.

        Raises:
            AuditError: The model has no field of any query.
        """
        if not any(map(self.has_field, queries)):
            raise AuditError(
                "the model has no field of any key of the corpus", "Give --from a model whose keys are the corpus's"
            )
        asked: dict[str, list[Query]] = {}
        for query in queries:
            asked.setdefault(query.document.id, []).append(query)
        self._asked = asked
        return super().examples(queries, progress, cache)

    def validate(self, queries: Sequence[Query]) -> dict[str, float]:
        """Mean ANLS and accuracy over queries; one whose key the model does not have scores 0."""
        known = [query for query in queries if self.has_field(query)]
        scores = super().validate(known) if known else {"anls": 0.0, "accuracy": 0.0}
        return {name: value * len(known) / len(queries) for name, value in scores.items()}
