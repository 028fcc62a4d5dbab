"""Parts of a corpus: queries to train on, and held-out ones."""

from __future__ import annotations

from pfl_audit.documents.corpus import Corpus
from pfl_audit.documents.document import Query
from pfl_audit.errors import UsageError
from pfl_audit.files import sha256_json


def split_queries(corpus: Corpus) -> tuple[list[Query], list[Query]]:
    """Queries to train on, and held-out ones to validate with: the valid part, else the test part."""
    train = [query for query in corpus.queries if "train" in query.document.split]
    valid = [query for query in corpus.queries if "val" in query.document.split]
    return train, valid or [query for query in corpus.queries if "test" in query.document.split]


def places(corpus: Corpus) -> str:
    """SHA-256 of what a training depends on and the digest of a corpus leaves out.

    These are part, provider and client of every page, and the order of the questions: batches are drawn by row.
    """
    return sha256_json(
        [
            [query.document.id, query.question, list(query.answers), query.key, page.split, page.provider, page.client]
            for query in corpus.queries
            for page in (query.document,)
        ]
    )


def of_some_providers(queries: list[Query], share: float, seed: int) -> list[Query]:
    """Queries of randomly drawn providers, in their order.

    Each provider is drawn by itself, from the seed and its name: one that comes or goes changes nothing for the others,
    so that a promise of privacy for providers holds as it is.

    Args:
        share: Probability of a provider, above 0 and 1 at the most.

    Raises:
        UsageError: The share is no share.
    """
    if not 0 < share <= 1:
        raise UsageError("--providers-share lies above 0 and is 1 at the most", "Give 0.5 for a half")
    providers = {query.document.provider for query in queries}
    drawn = {name for name in providers if int(sha256_json(["providers", seed, name])[:13], 16) / 16**13 < share}
    return [query for query in queries if query.document.provider in drawn]
