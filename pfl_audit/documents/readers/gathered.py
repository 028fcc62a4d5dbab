"""Pages of data sets whose rows name no corpus of ours: fields become questions, rows become pages."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from pfl_audit.documents.corpus import Corpus, Problem
from pfl_audit.documents.document import Document, Membership, Query
from pfl_audit.documents.keys import key_of_question
from pfl_audit.documents.readers import Part, of_part
from pfl_audit.documents.record_validation import (
    MAX_NAME,
    MAX_QUESTION,
    MAX_QUESTIONS,
    RECORD_ERRORS,
    RecordError,
    answers,
    identifier,
    reason_of,
    text,
)
from pfl_audit.errors import AuditError

SPLITS: Final = {
    "train": "blue_train", "training": "blue_train", "validation": "blue_valid", "valid": "blue_valid",
    "val": "blue_valid", "dev": "blue_valid", "test": "red_test", "testing": "red_test",
}  # fmt: skip
"""Name of a split to the split of a page."""
_YES, _NO = ("ja", "oui", "sí", "si", "sì", "sim", "tak"), ("nein", "nee", "nej", "non", "não", "nie")
_MEMBERS: Final = {
    **dict.fromkeys(("member", "true", "yes", "y", "1", *_YES), Membership.MEMBER),
    **dict.fromkeys(("non_member", "non-member", "false", "no", "n", "0", *_NO), Membership.NON_MEMBER),
    **dict.fromkeys(("unknown", ""), Membership.UNKNOWN),
}
_MOST_DEPTH = 16
Asked = tuple[str, tuple[str, ...], str]
"""Question, accepted answers, key."""


class LabelError(AuditError):
    """A provider has two memberships; the data set as a whole cannot be used."""


class Gathered:
    """Collects the pages of a data set; a row that cannot be used becomes a problem."""

    def __init__(self) -> None:
        self.queries: list[Query] = []
        self.membership: dict[str, Membership] = {}
        self.problems: list[Problem] = []
        self._pages: dict[str, Document] = {}
        self._counts: dict[str, int] = {}

    def add(
        self,
        where: str,
        build: Callable[[], tuple[Document, Sequence[Asked], Membership]],
        *,
        is_page: bool = False,
    ) -> None:
        """Add a page and its questions; the same `Document` may be given again with more questions.

        Raises:
            LabelError: A provider has two memberships.
        """
        try:
            page, asked, label = build()
            if not asked:
                raise RecordError("no question about it has an answer")
            count = self._counts.get(page.id, 0)
            if count + len(asked) > MAX_QUESTIONS:
                raise RecordError(f"more than {MAX_QUESTIONS:,} questions are asked about it")
            if self._pages.setdefault(page.id, page) is not page:
                raise RecordError("an earlier page has its id")
        except RECORD_ERRORS as error:
            self.problems.append(Problem(where, reason_of(error), is_page=is_page))
            return
        self._counts[page.id] = count + len(asked)
        self.queries += [Query(f"{page.id}-{number}", page, *one) for number, one in enumerate(asked, count)]
        if self.membership.setdefault(page.provider, label) is not label:
            name = "a page" if is_page else where
            raise LabelError(f"{name}: its provider has another membership in an earlier record", "Label each once")

    def corpus(self, name: str, part: Part) -> Corpus:
        """The pages of ``part``; pages without a split are RED."""
        return of_part(Corpus(tuple(self.queries), self.membership, name, tuple(self.problems)), part)


def provider_of(row: Mapping[str, Any], default: str) -> str:
    """Provider of a row; a page without one is its own provider.

    Raises:
        RecordError: It is no text, or too long.
    """
    return text(row["provider"], "provider", MAX_NAME) if row.get("provider") not in (None, "") else default


def membership_of(row: Mapping[str, Any]) -> Membership:
    """Label in the column ``membership`` or ``member``.

    Raises:
        RecordError: It is none that is known.
    """
    value = row.get("membership", row.get("member"))
    name = "" if value is None else str(value).strip().lower()
    if isinstance(value, list | dict) or name not in _MEMBERS:
        raise RecordError("membership is none of member, non_member, unknown, yes, no")
    return _MEMBERS[name]


def split_of(row: Mapping[str, Any], folder: str) -> str:
    """Split of a row by its column, else by the folder or file that holds it.

    Raises:
        RecordError: It is no text, or too long.
    """
    name = identifier(row.get("split"), "split") or folder
    return SPLITS.get(name.lower(), name)


def field_questions(fields: Iterable[tuple[str, str]]) -> list[Asked]:
    """Questions for (key, value) pairs; blank values are left out.

    Raises:
        RecordError: A key or a value is too long.
    """
    return [
        (f"What is the {' '.join(text(key, 'a key', MAX_NAME).replace('.', ' ').replace('_', ' ').split())}?",
         answers([value]), key)
        for key, value in fields
        if value.strip()
    ]  # fmt: skip


def question(asked: object, values: object) -> Asked:
    """A question with its accepted answers.

    Raises:
        RecordError: It is no text, or has no answer.
    """
    words = text(asked, "question", MAX_QUESTION)
    found = answers(list(dict.fromkeys(values)) if isinstance(values, list) else [values])
    return words, found, key_of_question(words)


def leaves(tree: object, path: str = "", depth: int = 0) -> list[tuple[str, str]]:
    """(path, value) of the leaves of a parse tree; keys are joined by dots, a list repeats its key.

    Raises:
        RecordError: It is nested too deeply, or has too many leaves.
    """
    if depth > _MOST_DEPTH:
        raise RecordError("it is nested too deeply")
    if isinstance(tree, Mapping):
        parts = [(f"{path}.{name}" if path else str(name), value) for name, value in tree.items()]
    elif isinstance(tree, list):
        parts = [(path, value) for value in tree]
    elif tree is None or isinstance(tree, bool) or not isinstance(tree, str | int | float):
        return []
    else:
        return [(path or "text", str(tree))]
    found: list[tuple[str, str]] = []
    for name, value in parts:
        if len(name) > MAX_NAME:
            raise RecordError(f"a key has more than {MAX_NAME:,} letters")
        found += leaves(value, name, depth + 1)
        if len(found) > MAX_QUESTIONS:
            raise RecordError(f"it has more than {MAX_QUESTIONS:,} fields")
    return found
