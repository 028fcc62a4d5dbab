"""Trains SentencePiece tokenizers."""

from __future__ import annotations

import io
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pfl_audit.files import atomic_write


def train_unigrams(texts: Iterable[str], folder: Path, vocabulary: int, **options: Any) -> None:
    """Train a unigram model and write ``spiece.model``; the same texts give the same bytes.

    Args:
        texts: Training texts; every character of them becomes a piece.
        folder: Folder to write to.
        vocabulary: Number of pieces.
        options: Further options of SentencePieceTrainer, such as special pieces and their ids.

    Raises:
        RuntimeError: The texts do not yield that many pieces, or need more.
    """
    import sentencepiece

    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(texts),
        model_writer=model,
        vocab_size=vocabulary,
        model_type="unigram",
        character_coverage=1.0,
        num_threads=1,
        shuffle_input_sentence=False,
        minloglevel=2,
        **options,
    )
    with atomic_write(folder / "spiece.model", private=False) as file:
        file.write(model.getvalue())
