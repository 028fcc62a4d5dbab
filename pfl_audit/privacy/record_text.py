"""Masking of texts in the privacy entry of a training record from elsewhere."""

from __future__ import annotations

from itertools import chain
from typing import Any, Final

from pfl_audit.privacy.mechanism import ADJACENCIES, SECRET_GENERATORS, SEEDED_NOISE
from pfl_audit.privacy.units import UNITS

NO_PRIVACY: Final = "none: trained without differential privacy"
_ADJACENCIES: Final = tuple(words.adjacency for words in UNITS.values())
_KNOWN: Final = {
    "unit": ("provider", "client", "document", "page", "record", "user", "example"),
    "adjacency": (*chain(*ADJACENCIES.values()), *_ADJACENCIES, "add/remove", "replace one record"),
    "accountant": ("pld", "prv", "renyi", "rdp", "moments", "gdp", "classical-gaussian"),
    "noise_generator": (*SECRET_GENERATORS, SEEDED_NOISE, "torch", "numpy"),
}
_OWN = "not shown: in the record's own words"


def without_free_text(privacy: object) -> object:
    """A ``privacy`` entry with unknown texts masked, since they may name companies, people or folders."""
    if not isinstance(privacy, dict):
        return privacy
    found: dict[str, Any] = {**privacy}
    for name, known in _KNOWN.items():
        text = found.get(name)
        if isinstance(text, str) and text.casefold() not in {one.casefold() for one in known}:
            found[name] = _OWN
    return found
