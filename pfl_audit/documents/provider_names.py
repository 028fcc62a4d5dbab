"""One name for each provider of a corpus."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from pfl_audit.documents.corpus import Corpus
from pfl_audit.documents.document import Membership
from pfl_audit.errors import AuditError
from pfl_audit.provider_identity import provider_identity


def with_one_name(corpus: Corpus) -> Corpus:
    """The corpus in which each provider has one name: the first of those with the same identity.

    Raises:
        AuditError: A provider is a member under one name and a non-member under another.
    """
    names = _first_names([*(page.provider for page in corpus.documents), *corpus.membership])
    if all(name == first for name, first in names.items()):
        return corpus
    pages = {page.id: replace(page, provider=names[page.provider]) for page in corpus.documents}
    membership: dict[str, Membership] = {}
    for name, label in corpus.membership.items():
        held = membership.get(names[name], Membership.UNKNOWN)
        if Membership.UNKNOWN not in (held, label) and held is not label:
            raise AuditError(
                "a provider whose name is written in two ways is a member under one and a non-member under the other",
                "Label each provider once: case and spaces of a name do not count",
            )
        membership[names[name]] = label if held is Membership.UNKNOWN else held
    queries = tuple(replace(query, document=pages[query.document.id]) for query in corpus.queries)
    return replace(corpus, queries=queries, membership=membership)


def _first_names(names: Iterable[str]) -> dict[str, str]:
    """Name to the first name of its provider."""
    first: dict[str, str] = {}
    return {name: first.setdefault(provider_identity(name), name) for name in names}
