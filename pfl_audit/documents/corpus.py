"""A corpus: questions about pages, and the membership of their providers, or of another unit of privacy."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Literal

from pfl_audit.documents.document import Document, Membership, Query
from pfl_audit.documents.groups import clients_coincide, join_groups
from pfl_audit.errors import NotAuditableError, UnanswerableError
from pfl_audit.files import sha256_json

_BY = "'member' in the table of labels, membership in corpus.jsonl, or set_name red_test_positive or red_test_negative"


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
        membership: Unit of privacy (`Document.unit`) to label; units without an entry are unknown.
        problems: Records of the source that were left out.
        unit: What the unit of privacy is.
        group_table: Unit to groups that a table states, beside those of the pages.
    """

    queries: tuple[Query, ...]
    membership: Mapping[str, Membership] = field(default_factory=dict)
    format: str = ""
    problems: tuple[Problem, ...] = ()
    unit: Literal["provider", "document", "person"] = "provider"
    group_table: Mapping[str, frozenset[str]] = field(default_factory=dict)

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

    @cached_property
    def units(self) -> tuple[str, ...]:
        """Every unit of privacy once, sorted."""
        return tuple(sorted({document.unit for document in self.documents}))

    def members(self) -> tuple[str, ...]:
        """Known members, sorted."""
        return self._labelled(Membership.MEMBER)

    def non_members(self) -> tuple[str, ...]:
        """Known non-members, sorted."""
        return self._labelled(Membership.NON_MEMBER)

    def unlabelled(self) -> tuple[str, ...]:
        """Units that an audit asks about and whose membership is unknown, so that it leaves them out; sorted."""
        asked = {page.unit for page in self.documents if is_asked(page)}
        return tuple(unit for unit in sorted(asked) if self.label(unit) is Membership.UNKNOWN)

    def label(self, unit: str) -> Membership:
        """Membership of a unit."""
        return self.membership.get(unit, Membership.UNKNOWN)

    @cached_property
    def stated_groups(self) -> dict[str, frozenset[str]]:
        """Unit to the groups that its pages or a table state; units without one are left out."""
        stated = _by_unit(self.documents, lambda page: page.group)
        none = frozenset[str]()
        named = {unit: stated.get(unit, none) | self.group_table.get(unit, none) for unit in self.units}
        return {unit: names for unit, names in named.items() if names}

    @cached_property
    def client_groups(self) -> dict[str, frozenset[str]]:
        """Unit to its federated clients where none states a group, and classes and clients coincide; else empty."""
        clients = _by_unit(self.documents, lambda page: "" if page.client is None else f"client {page.client}")
        members = dict.fromkeys(self.members(), True) | dict.fromkeys(self.non_members(), False)
        return clients if not self.stated_groups and clients_coincide(clients, members) else {}

    @cached_property
    def groups(self) -> dict[str, str]:
        """Every unit to the name of the group that it belongs to; one without a group is its own (`join_groups`)."""
        return join_groups(self.units, self.stated_groups or self.client_groups)

    def by_unit(self) -> dict[str, tuple[Query, ...]]:
        """Queries of each unit, units sorted."""
        groups: defaultdict[str, list[Query]] = defaultdict(list)
        for query in self.queries:
            groups[query.document.unit].append(query)
        return {unit: tuple(groups[unit]) for unit in sorted(groups)}

    def where(self, keep: Callable[[Query], bool]) -> Corpus:
        """The corpus restricted to queries for which ``keep`` is true."""
        return replace(self, queries=tuple(query for query in self.queries if keep(query)))

    @cached_property
    def digest(self) -> str:
        """SHA-256 of pages, questions, answers, labels and stated groups, independent of their order."""
        rows = sorted(
            [query.document.id, _digest(query.document), query.question, list(query.answers), query.key]
            for query in self.queries
        )
        labels = {unit: str(self.label(unit)) for unit in self.units}
        groups = {unit: sorted(names) for unit, names in self.stated_groups.items()}
        return sha256_json([rows, labels, groups] if groups else [rows, labels])

    def _labelled(self, membership: Membership) -> tuple[str, ...]:
        return tuple(unit for unit in self.units if self.label(unit) is membership)


def _by_unit(pages: Iterable[Document], name: Callable[[Document], str]) -> dict[str, frozenset[str]]:
    """Unit to the names that its pages have; units whose pages have none are left out."""
    found: defaultdict[str, set[str]] = defaultdict(set)
    for page in pages:
        if name(page):
            found[page.unit].add(name(page))
    return {unit: frozenset(names) for unit, names in found.items()}


def is_training(page: Document) -> bool:
    """Whether the split of a page (``...train...``) is one for training."""
    return "train" in page.split


def is_asked(page: Document) -> bool:
    """Whether an audit asks about a page: its split is neither for training nor a held-out part of BLUE."""
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
            f"the membership of none of the {len(corpus.units)} {corpus.unit}s is known",
            f"Label them: {_BY}",
        )
    if not members or not others:
        raise NotAuditableError(
            f"the corpus has {members} member and {others} non-member {corpus.unit}s, and both are needed",
            f"Add documents of both classes: {_BY}",
        )


def _digest(document: Document) -> str:
    """Digest of a page, or a constant if its image cannot be read."""
    try:
        return document.digest
    except UnanswerableError:
        return "unreadable"
