"""Checkpoints with RoBERTa's vocabulary, saved by transformers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
import transformers as hf

from tests.models.tagger.zoo import byte_pairs

SIZES: dict[str, Any] = {
    "hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32, "pad_token_id": 1,
    "max_position_embeddings": 66,
}  # fmt: skip
SEVEN = ["O", *(f"{part}-{label}" for label in ("NAME", "DATE", "AMOUNT") for part in "BI")]
THIRTEEN = ["O", *(f"{part}-{label}" for label in ("NAME", "DATE", "AMOUNT") for part in "BIES")]
TEXTS = ["Name : Anna Smiths Date 12/03/2020 total 1,2347 EUR thank you", "Größe Müller 中国 naïve"] * 3


def saved(folder: Path, kind: str, tags: list[str] | None = None, **more: Any) -> Any:
    """A checkpoint of transformers, with weights that have a say."""
    third = {"coordinate_size": 4, "shape_size": 4, "input_size": 32, "patch_size": 16}
    own = {"LayoutLMv3": third, "Lilt": {"channel_shrink_ratio": 2}, "Roberta": {}}[kind]
    tokens = byte_pairs(TEXTS, 64, hf.RobertaTokenizer if kind == "Roberta" else hf.LayoutLMv3Tokenizer)
    config = getattr(hf, f"{kind}Config")(**SIZES, vocab_size=len(tokens), **own, **more)
    if tags:
        config.id2label = dict(enumerate(tags))
        config.label2id = {tag: number for number, tag in enumerate(tags)}
    torch.manual_seed(3)
    network = getattr(hf, f"{kind}ForTokenClassification" if tags else f"{kind}ForMaskedLM")(config).eval()
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.normal_(std=0.3)
    network.save_pretrained(folder)
    tokens.save_pretrained(folder)
    return network
