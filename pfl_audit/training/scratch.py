"""A VT5 from nothing: its sizes, and a tokenizer learnt from a corpus."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import torch
from transformers import T5Config

from pfl_audit.documents.corpus import Corpus
from pfl_audit.errors import UsageError
from pfl_audit.models.tokenizer_files import train_unigrams
from pfl_audit.models.vt5.config import Vt5Config, visual_config
from pfl_audit.models.vt5.inputs import PROMPT
from pfl_audit.models.vt5.modeling import Vt5
from pfl_audit.models.vt5.tokenizer import EOS, PAD, UNK


@dataclass(frozen=True)
class Size:
    """Sizes of a VT5: of its T5, of its DiT, and of its longest answer."""

    text: dict[str, Any]
    visual: dict[str, Any]
    max_answer_tokens: int
    vocabulary: int | None = None


SIZES: Final = {
    "small": Size(
        text={"d_model": 192, "d_kv": 48, "d_ff": 512, "num_heads": 4, "num_layers": 3, "num_decoder_layers": 2,
              "dropout_rate": 0.0},
        visual={
            "hidden_size": 96, "num_hidden_layers": 2, "num_attention_heads": 3, "intermediate_size": 256,
            "drop_path_rate": 0.0,
            "image_size": 128, "patch_size": 16, "layer_norm_eps": 1e-12,
        },
        max_answer_tokens=40,
        vocabulary=1000,
    ),
    "base": Size(
        text={"d_model": 768, "d_kv": 64, "d_ff": 3072, "num_heads": 12, "num_layers": 12, "num_decoder_layers": 12,
              "vocab_size": 32128},
        visual={
            "hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12, "intermediate_size": 3072,
            "image_size": 224, "patch_size": 16, "layer_norm_eps": 1e-12,
        },
        max_answer_tokens=20,
    ),
}  # fmt: skip
"""``small`` has 3 million parameters; ``base`` has the sizes of the released VT5."""


def new_vt5(size: str, vocabulary: int, *, seed: int) -> Vt5:
    """A VT5 with random weights.

    Args:
        size: One of SIZES.
        vocabulary: Rows of the embedding, unless the size fixes it.

    Raises:
        UsageError: No such size.
    """
    if size not in SIZES:
        raise UsageError(f"there is no size '{size}'", f"Choose one of: {', '.join(SIZES)}")
    sizes = SIZES[size]
    text = T5Config(**{"vocab_size": vocabulary, **sizes.text})
    config = Vt5Config(text, visual_config(**sizes.visual), max_answer_tokens=sizes.max_answer_tokens)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return Vt5(config)


def train_tokenizer(corpus: Corpus, folder: Path, vocabulary: int) -> None:
    """Learn SentencePiece pieces from a corpus and write ``spiece.model``, with T5's special tokens first."""
    try:
        train_unigrams(_texts(corpus), folder, vocabulary, pad_id=PAD, eos_id=EOS, unk_id=UNK, bos_id=-1)
    except RuntimeError as error:
        raise UsageError(
            f"no tokenizer of {vocabulary} pieces can be learnt from this corpus", "Choose another --vocabulary"
        ) from error


def _texts(corpus: Corpus) -> Iterator[str]:
    for document in corpus.documents:
        yield from (word.lower() for word in document.words)
    for query in corpus.queries:
        yield PROMPT.format(query.question)
        yield from (answer.lower() for answer in query.answers)
