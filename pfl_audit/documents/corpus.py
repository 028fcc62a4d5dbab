"""A corpus: questions about pages, and the membership of their providers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from pfl_audit.documents.document import Document, Membership, Query
from pfl_audit.errors import NotAuditableError, UnanswerableError
from pfl_audit.files import sha256_json

_LABEL = "Add documents of both classes: set_name red_test_positive or red_test_negative, or membership in corpus.jsonl"


@dataclass(frozen=True)
class Problem:
    """A record that cannot be used.

    Attributes:
        record: File and row, or name of the page.
        reason: Why the record cannot be used; contains no text of a document.
        is_page: Whether ``record`` is the name of a page or of its file, which is masked in output.
    """

    record: str
    reason: str
    is_page: bool = False

    def to_dict(self) -> dict[str, str]:
        """As JSON."""
        return {"record": self.record, "reason": self.reason}


@dataclass(frozen=True, eq=False)
class Corpus:
    """Questions about pages.

    Attributes:
        queries: Questions in the order of the source.
        membership: Provider to label; providers without an entry are unknown.
        problems: Records of the source that were left out.
    """

    queries: tuple[Query, ...]
    membership: Mapping[str, Membership] = field(default_factory=dict)
    format: str = ""
    problems: tuple[Problem, ...] = ()

    def __post_init__(self) -> None:
        """Check that ids are unique, since answers refer to them."""
        if len({query.id for query in self.queries}) != len(self.queries):
            raise ValueError("two queries have the same id")

    @cached_property
    def documents(self) -> tuple[Document, ...]:
        """Every page once, in the order of the queries."""
        return tuple({query.document.id: query.document for query in self.queries}.values())

    @cached_property
    def providers(self) -> tuple[str, ...]:
        """Every provider once, sorted."""
        return tuple(sorted({document.provider for document in self.documents}))

    def members(self) -> tuple[str, ...]:
        """Known members, sorted."""
        return self._labelled(Membership.MEMBER)

    def non_members(self) -> tuple[str, ...]:
        """Known non-members, sorted."""
        return self._labelled(Membership.NON_MEMBER)

    def label(self, provider: str) -> Membership:
        """Membership of ``provider``."""
        return self.membership.get(provider, Membership.UNKNOWN)

    def by_provider(self) -> dict[str, tuple[Query, ...]]:
        """Queries of each provider, providers sorted."""
        groups: defaultdict[str, list[Query]] = defaultdict(list)
        for query in self.queries:
            groups[query.document.provider].append(query)
        return {provider: tuple(groups[provider]) for provider in sorted(groups)}

    def where(self, keep: Callable[[Query], bool]) -> Corpus:
        """The corpus restricted to queries for which ``keep`` is true."""
        return replace(self, queries=tuple(query for query in self.queries if keep(query)))

    @cached_property
    def digest(self) -> str:
        """SHA-256 of pages, questions, answers and labels, independent of their order."""
        rows = sorted(
            [query.document.id, _digest(query.document), query.question, list(query.answers), query.key]
            for query in self.queries
        )
        labels = {provider: str(self.label(provider)) for provider in self.providers}
        return sha256_json([rows, labels])

    def _labelled(self, membership: Membership) -> tuple[str, ...]:
        return tuple(provider for provider in self.providers if self.label(provider) is membership)


def is_training(page: Document) -> bool:
    """Whether the split of a page (``...train...``) is one for training."""
    return "train" in page.split


def is_asked(page: Document) -> bool:
    """Whether an audit asks about a page: its split is neither for training nor BLUE."""
    return not is_training(page) and not page.split.startswith("blue")


def require_questions(corpus: Corpus, path: Path) -> None:
    """Check that a corpus has questions.

    Raises:
        NotAuditableError: The corpus at ``path`` holds no question.
    """
    if not corpus.queries and not corpus.problems:
        raise NotAuditableError(f"{path} holds no question", "Give the folder of the documents to ask about")
    if not corpus.queries:
        raise NotAuditableError(
            f"{path} holds no question that can be used ({len(corpus.problems)} records are unusable)",
            f"Run 'pfl-audit data check {path}' to see why",
        )


def require_both_classes(corpus: Corpus) -> None:
    """Check that a corpus has members and non-members.

    Raises:
        NotAuditableError: A class is missing.
    """
    members, others = len(corpus.members()), len(corpus.non_members())
    if not members and not others:
        raise NotAuditableError(
            f"the membership of none of the {len(corpus.providers)} providers is known",
            "Label them: 'membership' in corpus.jsonl, or set_name red_test_positive and red_test_negative",
        )
    if not members or not others:
        raise NotAuditableError(
            f"the corpus has {members} member and {others} non-member providers, and both are needed", _LABEL
        )


def _digest(document: Document) -> str:
    """Digest of a page, or a constant if its image cannot be read."""
    try:
        return document.digest
    except UnanswerableError:
        return "unreadable"
