"""Small random token taggers of each family, saved by transformers itself."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch
import transformers as hf
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers

KEYS = ("PROVIDER_NAME", "INVOICE_NUMBER", "INVOICE_DATE", "Total Amount")
BIO = ["O", *(f"{prefix}-{key}" for key in KEYS for prefix in "BI")]
BIOES = ["O", *(f"{prefix}-{key}" for key in KEYS for prefix in "BIES")]
SIZES = {"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}


def word_piece(texts: Iterable[str], longest: int) -> Any:
    raw = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    raw.normalizer, raw.pre_tokenizer = normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    raw.train_from_iterator(
        texts, trainers.WordPieceTrainer(vocab_size=300, special_tokens=special, show_progress=False)
    )
    return hf.BertTokenizer(vocab=raw.get_vocab(), model_max_length=longest)


def byte_pairs(texts: Iterable[str], longest: int, kind: Any) -> Any:
    raw = Tokenizer(models.BPE())
    raw.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    raw.train_from_iterator(
        texts,
        trainers.BpeTrainer(vocab_size=400, special_tokens=special, initial_alphabet=alphabet, show_progress=False),
    )
    model = json.loads(raw.to_str())["model"]
    return kind(
        vocab=model["vocab"], merges=[tuple(pair) for pair in model["merges"]], model_max_length=longest,
        add_prefix_space=True,
    )  # fmt: skip


def save(folder: Path, config: Any, labels: list[str], *parts: Any) -> Path:
    torch.manual_seed(5)
    config.id2label = dict(enumerate(labels))
    config.label2id = {label: number for number, label in enumerate(labels)}
    network = hf.AutoModelForTokenClassification.from_config(config)
    with torch.no_grad():
        for parameter in network.parameters():  # so that labels differ between words
            if parameter.dim() > 1:
                parameter.normal_(std=0.3)
    network.save_pretrained(folder)
    for part in parts:
        part.save_pretrained(folder)
    return folder


def bert(folder: Path, texts: list[str], longest: int = 512) -> Path:
    tok = word_piece(texts, longest)
    return save(folder, hf.BertConfig(**SIZES, vocab_size=len(tok), max_position_embeddings=longest), BIO, tok)


def layoutlm(folder: Path, texts: list[str], longest: int = 512) -> Path:
    tok = word_piece(texts, longest)
    return save(folder, hf.LayoutLMConfig(**SIZES, vocab_size=len(tok), max_position_embeddings=longest), BIOES, tok)


def layoutlmv3(folder: Path, texts: list[str], longest: int = 512) -> Path:
    from transformers.models.layoutlmv3.image_processing_pil_layoutlmv3 import LayoutLMv3ImageProcessorPil

    tok = byte_pairs(texts, longest, hf.LayoutLMv3Tokenizer)
    config = hf.LayoutLMv3Config(
        **SIZES, vocab_size=len(tok), max_position_embeddings=longest + 2, coordinate_size=4, shape_size=4,
        input_size=32, patch_size=16, pad_token_id=1,
    )  # fmt: skip
    return save(
        folder, config, BIO, tok, LayoutLMv3ImageProcessorPil(apply_ocr=False, size={"height": 32, "width": 32})
    )


def lilt(folder: Path, texts: list[str], longest: int = 512) -> Path:
    tok = byte_pairs(texts, longest, hf.LayoutLMv3Tokenizer)
    config = hf.LiltConfig(
        **SIZES, vocab_size=len(tok), max_position_embeddings=longest + 2, channel_shrink_ratio=2, pad_token_id=1
    )
    return save(folder, config, BIO, tok)


FAMILIES: dict[str, Callable[..., Path]] = {one.__name__: one for one in (bert, layoutlm, layoutlmv3, lilt)}
