"""What a gate decided, as results.json holds it, and a text in every place of it."""

from __future__ import annotations

from typing import Any

GATE: dict[str, Any] = {
    "fail_on": "leak", "over": ["membership.azk"], "lacking": ["membership.apk"],
    "numbers": [
        {"gate": "membership : accuracy <= 60 %", "check": "membership.azk", "status": "failed",
         "metric": "balanced accuracy", "slice": {"s": 5}, "compared": 0.8, "end": "upper", "limit": 0.6,
         "format": "percent", "reason": "a reason"}
    ],
    "waivers": [
        {"check": "membership", "metric": "accuracy", "reason": "a reason", "name": "A. Engineer",
         "expires": "2026-12-31", "status": "unused"}
    ],
    "waived": ["membership.apk"], "as_before": ["membership.apk"],
    "baseline": {"path": "before", "sha256": "0", "started": "2026-01-01", "same_documents": True},
}  # fmt: skip


def put_text(gate: dict[str, Any], text: str) -> None:
    """Put a text in every place of a gate that is free."""
    gate |= {"over": [text], "lacking": [text], "waived": [text], "as_before": [text]}
    gate["numbers"][0] |= {"gate": text, "check": text, "metric": text, "slice": {text: text}, "reason": text}
    gate["waivers"][0] |= {"check": text, "metric": text, "reason": text, "name": text, "expires": text}
    gate["baseline"] |= {"path": text, "sha256": text, "started": text}
