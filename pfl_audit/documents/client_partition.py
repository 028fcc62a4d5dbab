"""Partition of training documents over the clients of a federation (federated-docvqa-pilot, section 4.2)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from math import inf
from typing import Any, Literal

import numpy as np
from numpy.random import Generator

from pfl_audit.documents.corpus import Corpus
from pfl_audit.documents.document import Document, Membership, Query
from pfl_audit.documents.provider_names import with_one_name
from pfl_audit.errors import NotAuditableError, UsageError
from pfl_audit.provider_identity import provider_identity

By = Literal["source", "provider", "dirichlet"]


def clients_of_sources(documents: Sequence[int], clients: int) -> list[int]:
    """Number of clients of each source (Table 2).

    A source has as many clients as shares of ``sum(documents) / clients`` documents fit into it. Clients left over go
    to the sources in their order, one each, and first to sources without a client.

    Args:
        documents: Number of documents of each source.
    """
    counts = [held * clients // sum(documents) for held in documents]
    for source in sorted(range(len(counts)), key=lambda at: counts[at] > 0)[: clients - sum(counts)]:
        counts[source] += 1
    return counts


def even_shares(count: int, parts: int) -> list[int]:
    """Sizes of the parts of ``count`` documents; they differ by one at most."""
    return [count // parts + (part < count % parts) for part in range(parts)]


def dirichlet_shares(count: int, parts: int, alpha: float, rng: Generator) -> list[int]:
    """Sizes of parts whose proportions are drawn from a symmetric Dirichlet distribution."""
    edges = np.rint(np.cumsum(rng.dirichlet([alpha] * parts)) * count).astype(int)
    return [int(size) for size in np.diff([0, *edges[:-1], count])]


def assign(units: Mapping[str, Iterable[str]], clients: int, by: By, alpha: float, seed: int) -> dict[str, list[int]]:
    """Draw the client of every unit, without replacement.

    Args:
        units: Source to its units, documents or providers. Their order decides nothing.
        clients: Number of clients. Each holds units of one source, or with ``dirichlet`` of all.
        alpha: Concentration of the Dirichlet distribution; small values make clients of unlike sizes and sources.

    Returns:
        Source to the clients of its sorted units.

    Raises:
        UsageError: A client would be empty, or the concentration is none.
    """
    if not 0 < alpha < inf:
        raise UsageError(f"the concentration of the Dirichlet distribution is {alpha}", "Give --alpha above 0")
    rng, drawn, first = np.random.default_rng(seed), dict[str, list[int]](), 0
    sizes = [len(set(names)) for names in units.values()]
    for source, size, own in zip(units, sizes, clients_of_sources(sizes, clients), strict=True):
        if by == "dirichlet":
            shares = dirichlet_shares(size, clients, alpha, rng)
        elif own:
            shares = [0] * first + even_shares(size, own)
            first += own
        else:
            raise UsageError(f"source {source} would have none of {clients} clients", "Raise --clients")
        drawn[source] = rng.permutation(np.repeat(np.arange(len(shares)), shares)).tolist()
    empty = sorted(set(range(clients)).difference(*drawn.values()))
    if empty:
        more = f" and {len(empty) - 1} more" if empty[1:] else ""
        raise UsageError(
            f"client {empty[0]}{more} would have no document",
            "Lower --clients, or choose another --seed or a larger --alpha" if by == "dirichlet" else "Lower --clients",
        )
    return drawn


def partition_corpora(sources: Mapping[str, Corpus], clients: int, by: By, alpha: float, seed: int) -> Corpus:
    """One corpus of several sources, whose BLUE training documents belong to clients.

    Other pages keep their part. Ids of pages and questions begin with the number of the source where there are several.

    Args:
        sources: Name to corpus, in which each provider has one name.
        by: Units that are drawn: documents (source), or providers (provider, dirichlet).

    Raises:
        NotAuditableError: A source has no BLUE training document.
        UsageError: A client would be empty, or a provider whose protection is counted once is in two sources.
    """
    units = {
        source: sorted({_unit(page, by) for page in corpus.documents if _trained(page)})
        for source, corpus in sources.items()
    }
    for source, names in units.items():
        if not names:
            raise NotAuditableError(f"source {source} holds no BLUE training document", "Leave it out")
    identities = {provider_identity(name) for names in units.values() for name in names}
    if by != "source" and sum(map(len, units.values())) > len(identities):
        raise UsageError("a provider is in two sources", "Choose --by source, or rename it in one of them")
    numbers = assign(units, clients, by, alpha, seed)
    queries, membership, labels = list[Query](), dict[str, Membership](), dict[str, Membership]()
    for number, (source, corpus) in enumerate(sources.items()):
        prefix = f"{number}-" if len(sources) > 1 else ""
        client_of = dict(zip(units[source], numbers[source], strict=True))
        pages = {page.id: _moved(page, source, prefix, client_of, by) for page in corpus.documents}
        queries += [replace(one, id=prefix + one.id, document=pages[one.document.id]) for one in corpus.queries]
        for provider in corpus.providers:
            label = corpus.label(provider)
            if labels.setdefault(provider_identity(provider), label) != label:
                raise UsageError("a provider is a member in one source and not in another", "Label each provider once")
            membership[provider] = label
    problems = tuple(problem for corpus in sources.values() for problem in corpus.problems)
    return with_one_name(Corpus(tuple(queries), membership, "jsonl", problems))


def clients_held(corpus: Corpus) -> list[dict[str, Any]]:
    """Sources, and numbers of providers, documents and questions, of every client."""
    rows = []
    for client in sorted({page.client for page in corpus.documents if page.client is not None}):
        queries = [query for query in corpus.queries if query.document.client == client]
        pages = [query.document for query in queries]
        rows.append(
            {
                "client": client,
                "sources": sorted({page.source for page in pages}),
                "providers": len({page.provider for page in pages}),
                "documents": len({page.file for page in pages}),
                "questions": len(queries),
            }
        )
    return rows


def _trained(page: Document) -> bool:
    return page.split.startswith("blue") and "train" in page.split


def _unit(page: Document, by: By) -> str:
    return page.file if by == "source" else page.provider


def _moved(page: Document, source: str, prefix: str, client_of: Mapping[str, int], by: By) -> Document:
    """The page in the new corpus."""
    if not _trained(page):
        return replace(page, id=prefix + page.id, source=source, client=None)
    client = client_of[_unit(page, by)]
    return replace(page, id=prefix + page.id, source=source, client=client, split=f"blue_train_client_{client}")
