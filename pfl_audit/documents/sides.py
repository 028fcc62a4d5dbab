"""Members and non-members that are given apart, as one corpus grouped by a unit of privacy."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

from pfl_audit.documents.corpus import Corpus
from pfl_audit.documents.document import Document, Membership, Query
from pfl_audit.documents.units import DOCUMENT, PROVIDER, Unit
from pfl_audit.errors import AuditError, UnanswerableError
from pfl_audit.provider_identity import provider_identity


def join_sides(members: Corpus, others: Corpus, unit: Unit = PROVIDER) -> Corpus:
    """One corpus of members and non-members, grouped by a unit, with membership by side.

    Labels of membership and splits in the two corpora are not used; the split of a page is that of its side.

    Args:
        members: Queries about what was trained on.
        others: Queries about what was not.

    Raises:
        AuditError: A page, an id or a unit is on both sides, or a document has no unit.
    """
    _refuse_shared(members, others)
    pages = {
        page.id: replace(_grouped(page, unit), split=split)
        for split, side in (("members", members), ("non-members", others))
        for page in side.documents
    }
    _refuse_shared_documents(pages, unit)
    sides = [{pages[page.id].unit for page in side.documents} for side in (members, others)]
    identities = [set(map(provider_identity, side)) for side in sides] if unit is PROVIDER else sides
    if both := len(identities[0] & identities[1]):
        finer = " or choose a finer --unit" if unit is PROVIDER else ""
        raise AuditError(
            f"{both} {unit.name if both == 1 else unit.many} {'is' if both == 1 else 'are'} among the members and "
            "among the non-members",
            f"Leave each on one side,{finer}" if finer else "Leave each on one side",
        )
    labels = (Membership.MEMBER, Membership.NON_MEMBER)
    return Corpus(
        queries=tuple(
            replace(query, document=pages[query.document.id]) for query in (*members.queries, *others.queries)
        ),
        membership={name: label for label, names in zip(labels, sides, strict=True) for name in sorted(names)},
        format=" and ".join(dict.fromkeys((members.format, others.format))),
        problems=members.problems + others.problems,
        unit=unit.name,
    )


def regroup(corpus: Corpus, unit: Unit) -> Corpus:
    """The corpus grouped by a unit, without labels of membership.

    Raises:
        AuditError: A document has no unit.
    """
    pages = {page.id: _grouped(page, unit) for page in corpus.documents}
    queries = tuple(replace(query, document=pages[query.document.id]) for query in corpus.queries)
    return replace(corpus, queries=queries, membership={}, unit=unit.name)


def _grouped(page: Document, unit: Unit) -> Document:
    if unit is PROVIDER:
        return page
    name = page.file if unit is DOCUMENT else page.person
    if not name:
        raise AuditError(
            "a document names no person, and the unit of privacy is the person",
            "Give 'person' in every line of corpus.jsonl",
        )
    return replace(page, unit_name=name)


def _refuse_shared(members: Corpus, others: Corpus) -> None:
    for what, one, two in (
        ("page id", _page_ids(members.queries), _page_ids(others.queries)),
        ("question id", {query.id for query in members.queries}, {query.id for query in others.queries}),
    ):
        if both := len(one & two):
            raise AuditError(
                f"{both} {what}{'s' * (both > 1)} {'is' if both == 1 else 'are'} used by members and by non-members",
                "Give every page an id of its own, and leave a document that is on both sides out of one",
            )
    digests = [set(filter(None, map(_content, side.documents))) for side in (members, others)]
    if both := len(digests[0] & digests[1]):
        raise AuditError(
            f"{both} page{'s' * (both > 1)} with the same content {'is' if both == 1 else 'are'} among the members and "
            "among the non-members",
            "Leave the document out of one of the two",
        )


def _content(page: Document) -> str | None:
    """Digest of what is on a page; None where there is nothing, or its image cannot be read."""
    try:
        return page.digest if page.words or page.image else None
    except UnanswerableError:
        return None


def _refuse_shared_documents(pages: dict[str, Document], unit: Unit) -> None:
    """Pages of one document have one provider; else ids are not of the form DOCUMENT_PAGE."""
    if unit is not DOCUMENT:
        return
    owners: defaultdict[str, set[str]] = defaultdict(set)
    for page in pages.values():
        owners[page.file].add(page.provider)
    if shared := sum(len(names) > 1 for names in owners.values()):
        raise AuditError(
            f"the page ids give {shared} document{'s' * (shared > 1)} pages of several providers",
            "Write page ids as DOCUMENT_NUMBER, such as invoice17_1",
        )


def _page_ids(queries: tuple[Query, ...]) -> set[str]:
    return {query.document.id for query in queries}
