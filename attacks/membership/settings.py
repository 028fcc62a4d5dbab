"""Settings of provider membership inference."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, JsonValue

from pfl_audit.core.settings import Flag, Settings
from pfl_audit.documents.scrubbing import THRESHOLD


class MembershipSettings(Settings):
    """Settings of provider membership inference (privacy-aware-docvqa, section 5.2)."""

    s: tuple[Annotated[int, Field(ge=0)], ...] = Field(
        default=(0, 5, 10), description="Attack providers with more than s questions (repeat)."
    )
    seeds: int = Field(default=5, ge=1, le=100, description="Draws of known providers and classifiers.")
    share: float = Field(default=0.15, gt=0, lt=0.9, description="Providers whose membership APK knows (r).")
    ablate: bool = Field(default=False, description="Add the ablation of the paper's Table 11.")
    forest_search: bool = Field(default=False, description="Tune the random forests by cross-validation.")
    provider_attacks: Annotated[dict[str, dict[str, JsonValue]], Flag(hidden=True)] = Field(
        default={}, description="Settings of provider attacks from other packages, by name."
    )
    threshold: float = Field(
        default=THRESHOLD, ge=0.5, le=1.0, description="Similarity from which words count as the value."
    )
