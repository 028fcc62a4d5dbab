"""WordPiece vocabularies: read as data, or trained on texts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pfl_audit.errors import AuditError
from pfl_audit.inputs import is_there, read_bytes, read_json
from pfl_audit.models.sentencepiece_file import LARGEST_TOKENIZER, require_pieces
from pfl_audit.models.weights import read_settings

SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
"""BERT's special tokens: padding, unknown, first, last, masked."""


def read_vocabulary(folder: Path) -> tuple[tuple[str, ...], bool]:
    """The pieces of a folder's tokenizer by id, and whether it lower-cases words.

    Raises:
        AuditError: There is none, or it is damaged or not BERT's.
    """
    if is_there(path := folder / "tokenizer.json"):
        read = _from_json
    elif is_there(path := folder / "vocab.txt"):
        read = _from_text
    else:
        raise AuditError(f"{folder} has no tokenizer", "Copy vocab.txt or tokenizer.json beside the weights")
    try:
        pieces, lowercase = read(path)
        require_pieces(pieces)
        return pieces, lowercase
    except (ValueError, TypeError, KeyError, AttributeError, OSError) as error:
        reason = " ".join(str(error).split())[:120] or type(error).__name__
        raise AuditError(f"{path} is no vocabulary of BERT's word pieces: {reason}", "Copy it again") from error


def train_vocabulary(texts: Iterable[str], size: int) -> tuple[str, ...]:
    """Train WordPiece on lower-cased texts: special tokens, letters, then the most frequent merges.

    Args:
        texts: Of any length.
        size: At most so many pieces, a quarter of them single letters; rarer letters are left out.

    Returns:
        The same every time.
    """
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers

    normalizer = normalizers.BertNormalizer(lowercase=True)
    clean = [normalizer.normalize_str(text.encode("utf-8", "replace").decode("utf-8")) for text in texts]
    counts = Counter(letter for text in clean for letter in text if not letter.isspace())
    letters = sorted(sorted(counts, key=lambda letter: (-counts[letter], letter))[: (size - len(SPECIAL)) // 4])
    others = str.maketrans(dict.fromkeys(set(counts) - set(letters), " "))
    pieces = Tokenizer(models.WordPiece(unk_token=SPECIAL[1]))
    pieces.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    # Letters are given in order, since the trainer numbers those that it finds itself in random order.
    fixed = [*SPECIAL, *letters, *(f"##{letter}" for letter in letters)]
    trainer = trainers.WordPieceTrainer(vocab_size=size, special_tokens=fixed, show_progress=False)
    pieces.train_from_iterator((text.translate(others) for text in clean), trainer)
    return _by_id(pieces.get_vocab())


def _from_text(path: Path) -> tuple[tuple[str, ...], bool]:
    lines = read_bytes(path, limit=LARGEST_TOKENIZER).decode("utf-8").split("\n")
    if lines[-1] == "":
        lines.pop()
    return tuple(line.rstrip("\r") for line in lines), _lowercase(path.with_name("tokenizer_config.json"), True)


def _from_json(path: Path) -> tuple[tuple[str, ...], bool]:
    """Only the pieces are taken over, and the one setting of BERT's own normaliser that differs between models."""
    content = read_json(path, limit=LARGEST_TOKENIZER)
    model = content["model"]
    if model.get("type", "WordPiece") != "WordPiece" or model.get("continuing_subword_prefix", "##") != "##":
        raise ValueError("its model is not WordPiece")
    normalizer = content.get("normalizer") or {}
    if normalizer.get("type") != "BertNormalizer":
        raise ValueError("its normaliser is not BERT's")
    vocabulary = {**model["vocab"], **{token["content"]: token["id"] for token in content.get("added_tokens") or []}}
    pieces = _by_id(vocabulary)
    if any("\n" in piece for piece in pieces):
        raise ValueError("a piece has a line break")
    return pieces, bool(normalizer.get("lowercase", True))


def _by_id(vocabulary: Mapping[Any, Any]) -> tuple[str, ...]:
    if sorted(vocabulary.values()) != list(range(len(vocabulary))):
        raise ValueError("its ids do not count from 0")
    return tuple(str(piece) for piece in sorted(vocabulary, key=vocabulary.__getitem__))


def _lowercase(path: Path, otherwise: bool) -> bool:
    config = read_settings(path)
    return bool(config.get("do_lower_case", otherwise)) if isinstance(config, dict) else otherwise
