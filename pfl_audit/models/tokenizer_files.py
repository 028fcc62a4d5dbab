"""Files of a tokenizer: found, read without bare exceptions, and trained."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pfl_audit.errors import AuditError
from pfl_audit.files import atomic_write
from pfl_audit.inputs import is_there
from pfl_audit.models.sentencepiece_file import UnfitTokenizerError


def find_unigrams(folder: Path, remedy: str) -> Path:
    """A folder's tokenizer: ``spiece.model`` before ``tokenizer.json``.

    Raises:
        AuditError: Neither is there.
    """
    for name in ("spiece.model", "tokenizer.json"):
        if is_there(folder / name):
            return folder / name
    raise AuditError(f"{folder} has no tokenizer (spiece.model or tokenizer.json)", remedy)


@contextmanager
def reading_tokenizer(folder: Path, remedy: str, file: Path | None = None) -> Iterator[None]:
    """A context in which a tokenizer is read.

    Raises:
        AuditError: Whatever is raised in it, with the file's name where that is given.
    """
    try:
        yield
    except AuditError:
        raise
    except Exception as error:  # the tokenizers library raises bare exceptions
        text = str(error) if isinstance(error, UnfitTokenizerError) else "it is damaged"
        where = f"{file.name}: " if file is not None else ""
        raise AuditError(f"the tokenizer of {folder} cannot be used: {where}{text}", remedy) from error


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
    with atomic_write(folder / "spiece.model") as file:
        file.write(model.getvalue())
