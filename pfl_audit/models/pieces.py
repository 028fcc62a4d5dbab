"""SentencePiece pieces, learnt from texts."""

from __future__ import annotations

import io
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pfl_audit.files import atomic_write


def learn_unigrams(texts: Iterable[str], folder: Path, vocabulary: int, **options: Any) -> None:
    """Learn unigram pieces and write ``spiece.model``; the same texts give the same bytes.

    Args:
        texts: Every character of them becomes a piece at least.
        folder: Where to.
        vocabulary: How many pieces.
        options: SentencePiece's own, such as which special pieces there are and where.

    Raises:
        RuntimeError: The texts do not give so many pieces, or need more.
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
