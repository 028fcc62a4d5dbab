"""Settings of the memorization test."""

from __future__ import annotations

from pydantic import Field

from pfl_audit.core.settings import Settings
from pfl_audit.documents.scrubbing import THRESHOLD


class MemorizationSettings(Settings):
    """Settings of the memorization test (privacy-aware-docvqa, section 5.1)."""

    threshold: float = Field(
        default=THRESHOLD, ge=0.5, le=1.0, description="Similarity from which words count as the value."
    )
    evidence_pages: int = Field(
        default=200, ge=0, description="Scrubbed pages of a key that are kept whole, privately."
    )
    shown_pages: int = Field(default=4, ge=0, le=50, description="Of these pages, how many the report shows.")
