"""When two names are one provider: the rule of corpora, clients and budgets alike."""

from __future__ import annotations


def provider_identity(name: str) -> str:
    """Key that names of one provider share: case and spaces do not count, anything else does."""
    return " ".join(name.casefold().split())
