"""Tiny Donuts with random weights: one saved by us, one as transformers saves it."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from pfl_audit.documents.corpus import Corpus
from pfl_audit.models.donut.small import SmallSize, new_donut, save_donut, train_tokenizer
from pfl_audit.models.donut.tokenizer import MARKS, DonutTokenizer

LONGEST = 64
TINY = SmallSize(
    height=64, width=48, embed=24, depths=(2, 2), heads=(2, 4), window=4, d_model=32, ffn=48, longest=LONGEST,
    spread=0.4,
)  # fmt: skip


@pytest.fixture(scope="session")
def make_donut(red: Corpus, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Checkpoints by kind: ``ours`` (spiece.model, a projection, tied), ``theirs`` (tokenizer.json, neither)."""
    base = tmp_path_factory.mktemp("donut")
    texts = sorted({text for query in red.queries for text in (query.question, *query.answers)})
    known: dict[str, Path] = {}

    def make(kind: str) -> Path:
        if kind not in known:
            known[kind] = base / kind
            known[kind].mkdir()
            {"ours": save_ours, "theirs": save_theirs}[kind](texts, known[kind])
        return known[kind]

    return make


def save_ours(texts: list[str], folder: Path) -> None:
    train_tokenizer(texts, folder, 150)
    save_donut(new_donut(TINY, DonutTokenizer.open(folder).size, seed=1), folder, folder)


def save_theirs(texts: list[str], folder: Path) -> None:
    save_as_transformers(folder, train_unigram(texts, folder))


def save_as_transformers(folder: Path, rows: int) -> None:
    import torch
    from transformers import DonutSwinConfig, MBartConfig, VisionEncoderDecoderConfig, VisionEncoderDecoderModel

    encoder = DonutSwinConfig(
        image_size=[80, 48], embed_dim=12, depths=[2, 1, 1], num_heads=[2, 2, 4], window_size=3, initializer_range=0.4
    )
    decoder = MBartConfig(
        vocab_size=rows + 3, d_model=48, decoder_layers=2, encoder_layers=3, decoder_attention_heads=2,
        decoder_ffn_dim=40, max_position_embeddings=LONGEST, init_std=0.4, tie_word_embeddings=False,
        is_decoder=True, add_cross_attention=True,
    )  # fmt: skip
    torch.manual_seed(2)
    config = VisionEncoderDecoderConfig(encoder=encoder.to_dict(), decoder=decoder.to_dict(), pad_token_id=1)
    VisionEncoderDecoderModel(config).save_pretrained(folder)
    settings = {
        "image_processor_type": "DonutFeatureExtractor",
        "size": [48, 80],
        "do_align_long_axis": True,
        "image_mean": [0.4, 0.5, 0.6],
        "image_std": [0.2, 0.3, 0.4],
        "resample": 3,
    }
    (folder / "preprocessor_config.json").write_text(json.dumps(settings))


def train_unigram(texts: list[str], folder: Path, marks: Sequence[str] = MARKS) -> int:
    """Write a ``tokenizer.json`` as XLM-R's, the marks added behind the vocabulary; its size."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors, trainers

    tokenizer = Tokenizer(models.Unigram())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace("▁", prepend_scheme="always")]
    )
    tokenizer.decoder = decoders.Metaspace("▁", prepend_scheme="always")
    specials = ["<s>", "<pad>", "</s>", "<unk>"]
    trainer = trainers.UnigramTrainer(vocab_size=140, special_tokens=specials, unk_token="<unk>", show_progress=False)
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    tokenizer.add_special_tokens([AddedToken(name, special=True) for name in marks])
    tokenizer.save(str(folder / "tokenizer.json"))
    return int(tokenizer.get_vocab_size())
