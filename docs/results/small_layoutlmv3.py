"""A small LayoutLMv3 that answers questions, with random weights: small_layoutlmv3.py FOLDER."""

from __future__ import annotations

import sys
from importlib import resources
from pathlib import Path

import torch
from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from transformers import LayoutLMv3Config, LayoutLMv3ForQuestionAnswering

from pfl_audit.attacks.inversion.template.synthetic import open_templates
from pfl_audit.attacks.inversion.template.values import draw_values, question_for


def main(folder: Path) -> None:
    """As wide as a page of 224 x 224 has patches and a line of tokens; no training."""
    folder.mkdir(parents=True, exist_ok=True)
    forms = open_templates(Path(str(resources.files("pfl_audit.fixtures"))) / "templates")
    texts = [text for form in forms for field in form.fields for text in question_for(field, draw_values(form, 0))]
    texts += [word for form in forms for word in form.words]
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    tokenizer.train_from_iterator(
        texts,
        trainers.BpeTrainer(vocab_size=600, special_tokens=special, initial_alphabet=alphabet, show_progress=False),
    )
    tokenizer.model.save(str(folder))
    torch.manual_seed(0)
    config = LayoutLMv3Config(
        vocab_size=tokenizer.get_vocab_size(),
        hidden_size=256,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=512,
        max_position_embeddings=514,
        coordinate_size=48,
        shape_size=32,
        pad_token_id=1,
        bos_token_id=0,
        eos_token_id=2,
    )
    LayoutLMv3ForQuestionAnswering(config).save_pretrained(folder)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
