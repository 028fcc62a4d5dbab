"""Names of the versions of LayoutLM, for its families and its models."""

from collections.abc import Mapping
from typing import Final, Literal

Version = Literal[1, 3]
NAMES: Final[Mapping[Version, str]] = {1: "layoutlm", 3: "layoutlmv3"}
"""``model_type`` in config.json, and the prefix of the backbone's tensors."""
