"""LayoutLMv3s with random weights whose tokenizer has most words of the forms' values whole."""

from __future__ import annotations

import json
from pathlib import Path

import torch
from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from transformers import LayoutLMv3Config, LayoutLMv3ForQuestionAnswering

from pfl_audit.attacks.inversion.template.values import draw_values
from tests.attacks.inversion.template.drawn import form

QUESTIONS = "What is the name date sum place who written in field 1 2 3 ?"
PIECES = 3000
FORMS = (form(), form(("Sum:", "Place:", "Who:")))


def save_model(folder: Path, width: int, *, picture: int | None = None, layers: int = 2, seed: int = 0) -> Path:
    """A checkpoint.

    Args:
        picture: Side of the page in pixels; None for a model that takes no image.
    """
    pieces = _train_tokenizer(folder)
    torch.manual_seed(seed)
    config = LayoutLMv3Config(
        hidden_size=width,
        num_hidden_layers=layers,
        num_attention_heads=width // 64,
        intermediate_size=4 * width,
        vocab_size=pieces,
        max_position_embeddings=130,
        coordinate_size=width // 6,
        shape_size=width // 6,
        input_size=picture or 32,
        patch_size=16,
        visual_embed=picture is not None,
    )
    network = LayoutLMv3ForQuestionAnswering(config)
    if picture is not None:
        for part in (network.layoutlmv3.pos_embed, network.layoutlmv3.cls_token):
            torch.nn.init.normal_(part, std=config.initializer_range)
        scale = {"size": {"height": picture, "width": picture}, "image_mean": [0.5] * 3, "image_std": [0.5] * 3}
        (folder / "preprocessor_config.json").write_text(json.dumps(scale))
    network.save_pretrained(folder)
    return folder


def _train_tokenizer(folder: Path) -> int:
    """Byte pairs of other fillings than the tests have; their number."""
    texts = [QUESTIONS] * 3 + [
        " ".join(draw_values(template, seed).values()) for template in FORMS for seed in range(1000, 1400)
    ]
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    trainer = trainers.BpeTrainer(
        vocab_size=PIECES,
        special_tokens=["<s>", "<pad>", "</s>", "<unk>", "<mask>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.model.save(str(folder))
    return int(tokenizer.get_vocab_size())
