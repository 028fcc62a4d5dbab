"""Texts of the privacy entry of a training record: those that pfl-audit writes, and masking of others."""

from __future__ import annotations

from typing import Any, Final

from pfl_audit.privacy.guarantee import CRYPTOGRAPHIC

NO_PRIVACY: Final = "none: trained without differential privacy"
ADJACENCY: Final = "add or remove one provider with all its documents"
REPLACEMENT: Final = "replace one provider with all its documents"
ADJACENCIES: Final = {"poisson": ADJACENCY, "fixed-size": REPLACEMENT}
"""Adjacency of each kind of sampling."""
NOT_COVERED: Final = (
    "the choice of settings by looking at results",
    "a server that sees single updates: each carries only its share of the noise unless they are summed securely",
)
SYSTEMS: Final = {
    "strategy": "server strategy: no change, because it works on the noisy sums alone",
    "codec": "encoding of messages: no change, because it rounds what already has its noise",
    "local": "local optimiser and proximal term: no change, because every update is clipped",
    "groups": "groups of a fixed size: epsilon is for one provider replaced by another, which moves the sum by up to "
    "twice the clip",
    "memory": "dual variable between rounds: epsilon is for full noise on every client's message, and for known "
    "participation",
    "pretraining": "self-pretraining: epsilon counts the rounds of both phases",
    "quorum": "rounds without some clients: a condition, that clients do not fail for reasons that depend on their "
    "documents",
}
"""What a part of the training system changes of the guarantee."""
_NOT_COVERED_BEFORE: Final = (
    "the number of providers, which is taken as known where it decides the denominator",
    "the figures in this record that were measured without noise: history, tally, counts of data",
)
"""Further texts of records that earlier versions wrote."""
SECRET_NOISE: Final = f"{CRYPTOGRAPHIC}: SHAKE-256 with a secret key"
SEEDED_NOISE: Final = "SHAKE-256 with a key from a seed"

_KNOWN: Final = {
    "unit": ("provider", "client", "document", "page", "record", "user", "example"),
    "adjacency": (
        ADJACENCY,
        REPLACEMENT,
        "add/remove one provider",
        "add/remove",
        "replace one provider",
        "replace one record",
    ),
    "accountant": ("pld", "prv", "renyi", "rdp", "moments", "gdp", "classical-gaussian"),
    "noise_generator": (SECRET_NOISE, SEEDED_NOISE, f"{CRYPTOGRAPHIC}: operating system", "torch", "numpy"),
}
_OWN = "not shown: in the record's own words"
_KEPT_PREFIXES: Final = {"adjacency": "add", "noise_generator": CRYPTOGRAPHIC}
"""Prefixes that the review of a guarantee depends on, and that are kept."""


def without_free_text(privacy: object) -> object:
    """A ``privacy`` entry with unknown texts masked, since they may name companies, people or folders."""
    if not isinstance(privacy, dict):
        return privacy
    found: dict[str, Any] = {**privacy}
    for name, known in _KNOWN.items():
        text = found.get(name)
        if isinstance(text, str) and text.casefold() not in {one.casefold() for one in known}:
            kept = _KEPT_PREFIXES.get(name, "")
            found[name] = f"{kept} ({_OWN})" if kept and text.casefold().startswith(kept) else _OWN
    lists = {"not_covered": (*NOT_COVERED, *_NOT_COVERED_BEFORE), "systems": tuple(SYSTEMS.values())}
    for name, texts in lists.items():
        listed = found.get(name)
        if isinstance(listed, list) and all(isinstance(text, str) for text in listed):
            ours = [text for text in listed if text in texts]
            found[name] = ours + ([f"{len(listed) - len(ours)} more ({_OWN})"] if len(ours) < len(listed) else [])
    return found
