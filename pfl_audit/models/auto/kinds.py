"""Table of what transformers' auto classes open, and how each is asked. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any


@dataclass(frozen=True)
class Kind:
    """One way to ask a model of transformers.

    Attributes:
        name: Name in reports.
        auto: Auto class that opens it.
        prompt: Default template.
        inputs: Class of ``auto.inputs`` that builds its inputs.
        first_line: Whether the answer ends with its first line, as a model without turns goes on writing.
        marked: Whether the prompt has the image token; else the processor adds it.
        batched: Whether answers do not depend on the batch; else each question is asked alone.
        apart: Whether the answer is tokenised apart from the prompt.
        answer_type: ``token_type_ids`` of the answer's tokens.
        note: Sentence for the report.
    """

    name: str
    auto: str
    prompt: str
    inputs: str
    first_line: bool = False
    marked: bool = True
    batched: bool = True
    apart: bool = False
    answer_type: int = 0
    note: str = ""


_IMAGE = "AutoModelForImageTextToText"
TEXT_TO_TEXT = Kind("text-to-text", "AutoModelForSeq2SeqLM", "question: {question} context: {words}", "TextInputs")
TEXT = Kind("text", "AutoModelForCausalLM", "{words}\n\nQuestion: {question}\nAnswer:", "TextInputs", first_line=True)
VISION = Kind("vision-language", _IMAGE, "{question}\nAnswer with a short phrase from the page.", "ImageInputs")
SPECIAL = {
    **dict.fromkeys(("recurrent_gemma", "rwkv", "xlnet"), replace(TEXT, batched=False)),  # padding reaches the answer
    "udop": Kind("udop", _IMAGE, "Question answering. {question}", "UdopInputs", batched=False),
    "paligemma": Kind("vision-language", _IMAGE, "answer en {question}", "ImageInputs", apart=True, answer_type=1),
    "florence2": Kind("vision-language", _IMAGE, "{question}", "ImageInputs", marked=False),
    "pix2struct": Kind(
        "pix2struct", _IMAGE, "{question}", "HeaderInputs",
        note="the question is drawn above the page in DejaVu Sans; Google's models were trained with Arial",
    ),
}  # fmt: skip
"""By ``model_type``, where the general ways do not fit."""
_TABLES = (
    ("MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES", VISION),
    ("MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES", TEXT_TO_TEXT),
    ("MODEL_FOR_CAUSAL_LM_MAPPING_NAMES", TEXT),
)
_NO_QUESTIONS = frozenset({"vision-encoder-decoder", "encoder-decoder", "pi0", "evolla", "diffusion_gemma"})
"""Model types in the tables that take no question about an image or a text."""


def kind_of(config: Mapping[str, Any]) -> Kind | None:
    """How a checkpoint is asked, or None if no auto class opens it to write text.

    Args:
        config: Its ``config.json``; ``model_type`` and the class that was saved decide.
    """
    model_type, classes = config.get("model_type"), config.get("architectures")
    if not (isinstance(model_type, str) and isinstance(classes, list)) or model_type in _NO_QUESTIONS:
        return None
    from transformers.models.auto import modeling_auto

    for table, kind in _TABLES:
        opened = getattr(modeling_auto, table).get(model_type, "")
        if opened in classes and "audio_config" not in config:
            return SPECIAL.get(model_type, kind)
    return None
