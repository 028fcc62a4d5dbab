"""Small models of random weights that take no question: families_start.py CORPUS FOLDER.

FOLDER/donut prints fields (task <s_fields>), FOLDER/layoutlmv3 tags words; their keys are those of the corpus.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from transformers import LayoutLMv3Config, LayoutLMv3ForTokenClassification, LayoutLMv3Tokenizer

from pfl_audit.documents.readers import open_corpus
from pfl_audit.models.donut.small import PIECES, SmallSize, new_donut, save_donut
from pfl_audit.models.donut.tokenizer import DonutTokenizer
from pfl_audit.models.tokenizer_files import train_unigrams

TASK = "<s_fields>"
_MARKS = {"bos": "s", "pad": "pad", "eos": "/s", "unk": "unk"}
SIZE = SmallSize(height=224, width=168, patch=8, embed=64, window=7, heads=(4, 8), longest=160)


def donut(texts: list[str], keys: list[str], folder: Path) -> None:
    """A Donut with two tags a key."""
    folder.mkdir(parents=True, exist_ok=True)
    tags = [f"<{end}s_{key}>" for key in keys for end in ("", "/")]
    ids = {f"{name}_id": PIECES.index(f"<{mark}>") for name, mark in _MARKS.items()}
    train_unigrams(texts, folder, 800, hard_vocab_limit=False, control_symbols=[TASK, *tags], **ids)
    tokenizer = DonutTokenizer.open(folder, (TASK,))
    save_donut(new_donut(SIZE, tokenizer.size, seed=0), folder, folder)


def layoutlmv3(texts: list[str], keys: list[str], folder: Path) -> None:
    """A LayoutLMv3 with the labels B and I of each key, which sees the page as 16 patches."""
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    raw = Tokenizer(models.BPE())
    raw.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    raw.train_from_iterator(
        texts,
        trainers.BpeTrainer(vocab_size=1500, special_tokens=special, initial_alphabet=alphabet, show_progress=False),
    )
    folder.mkdir(parents=True, exist_ok=True)
    raw.model.save(str(folder))
    LayoutLMv3Tokenizer.from_pretrained(folder, model_max_length=512).save_pretrained(folder)
    names = ["O", *(f"{prefix}-{key.upper()}" for key in keys for prefix in "BI")]
    torch.manual_seed(0)
    config = LayoutLMv3Config(
        vocab_size=raw.get_vocab_size(),
        hidden_size=96,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=192,
        max_position_embeddings=514,
        coordinate_size=16,
        shape_size=16,
        input_size=64,
        patch_size=16,
        pad_token_id=1,
        bos_token_id=0,
        eos_token_id=2,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        id2label=dict(enumerate(names)),
        label2id={name: number for number, name in enumerate(names)},
    )
    LayoutLMv3ForTokenClassification(config).save_pretrained(folder)


def main(corpus: Path, folder: Path) -> None:
    """Tokenizers are learnt from the training part of the corpus."""
    queries = open_corpus(corpus, "blue").queries
    keys = sorted({query.key for query in queries})
    pages = {query.document.id: query.document for query in queries}
    donut(sorted({answer for query in queries for answer in query.answers}), keys, folder / "donut")
    layoutlmv3([" ".join(page.words) for page in pages.values()], keys, folder / "layoutlmv3")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
