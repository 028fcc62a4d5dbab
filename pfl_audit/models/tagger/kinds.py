"""Which checkpoints are token taggers that transformers opens. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pfl_audit.models.auto.kinds import Kind

AUTO: Final = "AutoModelForTokenClassification"
KIND: Final = Kind("token-tagger", AUTO, "", "TextInputs")
_HEAD: Final = "ForTokenClassification"
_OTHER_INPUTS: Final = frozenset({"layoutlmv2", "markuplm", "bros", "canine", "luke", "qwen3_asr", "modernvbert"})
"""Model types in the table that need other inputs than words, boxes and page image, or packages that are not here."""


def tagger_kind(config: Mapping[str, Any]) -> Kind | None:
    """KIND if the saved class is the one that the auto class opens for the model type, else None."""
    model_type, classes = config.get("model_type"), config.get("architectures")
    if not (isinstance(model_type, str) and isinstance(classes, list)) or model_type in _OTHER_INPUTS:
        return None
    if not any(isinstance(name, str) and name.endswith(_HEAD) for name in classes):
        return None  # without the import, which takes a second
    from transformers.models.auto import modeling_auto

    opened = modeling_auto.MODEL_FOR_TOKEN_CLASSIFICATION_MAPPING_NAMES.get(model_type, "")
    return KIND if opened and opened in classes else None
