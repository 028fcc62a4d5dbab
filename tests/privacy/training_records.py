"""Training records that state a guarantee, and its mechanism."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pfl_audit.privacy.correlation import optimal_strategy
from pfl_audit.privacy.guarantee import GuaranteeReview
from pfl_audit.privacy.mechanism import SECRET_GENERATORS
from pfl_audit.privacy.review import review_record
from pfl_audit.privacy.units import UNITS

DOCUMENTS: dict[str, Any] = {"unit": "document", "adjacency": UNITS["document"].adjacency}
"""Statements in which a claim for documents differs from one for providers."""


def mechanism_of_claim(
    claim: Mapping[str, Any], clients: int = 4, *, dual: bool = False, codec: str = "float32", strategy: str = "fedavg"
) -> dict[str, Any]:
    """The serialised mechanism that a claim describes, with these parts; for documents where it states all of that."""
    documents = DOCUMENTS.items() <= claim.items()
    drawn = claim["sampling"]
    noise = {
        "part": "noise",
        "multiplier": claim["noise_multiplier"],
        "carrier": claim.get("noise", "sum"),
        "secret": claim["noise_generator"] in SECRET_GENERATORS,
        "quorum": claim.get("quorum"),
        "strategy": list(optimal_strategy(claim["rounds"], drawn.get("separation") or 1)),
    }
    parts = [
        {"part": "gradient"} if documents else {"part": "local", "optimizer": "adamw"},
        *([{"part": "dual", "start": "random"}] if dual else []),
        {"part": "clip", "bound": claim["clip"]},
        noise,
        {"part": "codec", "name": codec, "lossy": codec == "nf4"},
        {"part": "sum", "clients": clients},
        {"part": "server", "strategy": strategy},
    ]
    phase = {"task": "questions", "rounds": claim["rounds"], "parts": parts}
    unit = {"unit": "document"} if documents else {}
    draw = {name: drawn[name] for name in ("kind", "client_rate", "provider_rate")}
    return unit | {"draw": {**draw, "separation": drawn.get("separation")}, "phases": [phase]}


def record_of(claim: Any) -> dict[str, Any]:
    """A record that states a claim, and the mechanism that it describes, if it describes one."""
    try:
        return {"privacy": {**claim, "mechanism": mechanism_of_claim(claim)}}
    except (AttributeError, KeyError, TypeError):
        return {"privacy": claim}


def review_claim(claim: Any) -> GuaranteeReview:
    """The review of such a record."""
    found = review_record(record_of(claim))
    assert found is not None
    return found
