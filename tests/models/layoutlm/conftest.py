"""Tiny LayoutLMs with random weights, saved as transformers saves them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from pfl_audit.documents.corpus import Corpus

LONGEST = 128


@pytest.fixture(scope="session")
def make_qa(red: Corpus, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Checkpoints by kind: ``v1``, ``v1-bpe``, ``v3``, ``v3-blind``; the windows of all are short."""
    base = tmp_path_factory.mktemp("layoutlm")
    texts = sorted({word for query in red.queries for word in (*query.document.words, *query.question.split())})
    known: dict[str, Path] = {}

    def make(kind: str) -> Path:
        if kind not in known:
            known[kind] = base / kind
            known[kind].mkdir()
            if kind == "v1":
                train_word_piece(texts, known[kind])
            else:
                train_byte_pairs(texts, known[kind])
            save_network(kind, known[kind])
        return known[kind]

    return make


def train_word_piece(texts: list[str], folder: Path) -> None:
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    specials = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    trainer = trainers.WordPieceTrainer(vocab_size=300, special_tokens=specials, show_progress=False)
    tokenizer.train_from_iterator(texts, trainer)
    names = sorted(tokenizer.get_vocab().items(), key=lambda item: item[1])
    (folder / "vocab.txt").write_text("".join(f"{name}\n" for name, _ in names))


def train_byte_pairs(texts: list[str], folder: Path) -> None:
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    trainer = trainers.BpeTrainer(
        vocab_size=400,
        special_tokens=["<s>", "<pad>", "</s>", "<unk>", "<mask>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.model.save(str(folder))


def save_network(kind: str, folder: Path, width: int = 24) -> None:
    import torch
    from transformers import (
        LayoutLMConfig,
        LayoutLMForQuestionAnswering,
        LayoutLMv3Config,
        LayoutLMv3ForQuestionAnswering,
    )

    torch.manual_seed(len(kind))
    sizes = {
        "hidden_size": width,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 32,
        "initializer_range": 0.5 * (24 / width) ** 0.5,
        "vocab_size": 420,
    }
    if kind == "v1":
        network = LayoutLMForQuestionAnswering(LayoutLMConfig(**sizes, max_position_embeddings=LONGEST))
    elif kind == "v1-bpe":
        config = LayoutLMConfig(**sizes, max_position_embeddings=LONGEST + 2, type_vocab_size=1, pad_token_id=1)
        network = LayoutLMForQuestionAnswering(config)
        (folder / "tokenizer_config.json").write_text(json.dumps({"model_max_length": LONGEST}))
    else:
        config = LayoutLMv3Config(
            **sizes,
            max_position_embeddings=LONGEST + 2,
            coordinate_size=width // 6,
            shape_size=width // 6,
            input_size=32,
            patch_size=16,
            visual_embed=kind == "v3",
        )
        network = LayoutLMv3ForQuestionAnswering(config)
        if kind == "v3":
            torch.nn.init.normal_(network.layoutlmv3.pos_embed)
            torch.nn.init.normal_(network.layoutlmv3.cls_token)
            settings = {
                "size": {"height": 32, "width": 40},
                "image_mean": [0.4, 0.5, 0.6],
                "image_std": [0.2, 0.3, 0.4],
            }
            (folder / "preprocessor_config.json").write_text(json.dumps(settings))
    network.save_pretrained(folder)
