"""The nearest supported way to audit a checkpoint of an unsupported family."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_HEADS = (
    ("ForMaskedLM", "Audit it on filled-in forms if it is of a form encoder's family: 'pfl-audit reconstruct'"),
    ("ForQuestionAnswering", "Fine-tune a LayoutLM on the same documents: its question-answering head is supported"),
    (
        "ForTokenClassification",
        "Give a tagger that reads words and boxes, or record its answers and give them with --answers",
    ),
    ("ForSequenceClassification", "A classifier answers no questions; audit the model that it was trained from"),
    ("EncoderModel", "Save the whole model with its decoder, such as T5ForConditionalGeneration"),
)
"""End of the saved class to the remedy."""
_OTHERWISE = "Record its answers to the questions, and give them with --answers instead of --model"


def nearest_way(config: Mapping[str, Any]) -> str:
    """Remedy for a checkpoint that no family recognises, by its ``config.json``."""
    if config.get("auto_map"):
        return f"It needs code of its own, which is never run. {_OTHERWISE}"
    classes = config.get("architectures")
    names = [name for name in classes if isinstance(name, str)] if isinstance(classes, list) else []
    return next((way for end, way in _HEADS if any(name.endswith(end) for name in names)), _OTHERWISE)
