"""Vocabularies of word pieces and byte pairs: read as data, or trained on texts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pfl_audit.errors import AuditError
from pfl_audit.inputs import is_there, read_json, read_text
from pfl_audit.models.sentencepiece_file import LARGEST_TOKENIZER, require_pieces
from pfl_audit.models.weights import read_settings

SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
"""BERT's special tokens: padding, unknown, first, last, masked."""
ROBERTA_SPECIAL = ("<pad>", "<unk>", "<s>", "</s>", "<mask>")
"""The same of RoBERTa."""
Merges = tuple[tuple[str, str], ...]
"""Pairs that byte-level BPE joins, the first ones first."""


_SETTINGS = {"do_lower_case": "lowercase", "strip_accents": "strip_accents", "tokenize_chinese_chars": "chinese"}
"""Key of tokenizer_config.json to attribute of Casing."""
_NORMALIZER = {"lowercase": "lowercase", "strip_accents": "strip_accents", "handle_chinese_chars": "chinese"}
"""Key of the normaliser in tokenizer.json to attribute of Casing."""


@dataclass(frozen=True)
class Casing:
    """How BERT's normaliser changes words before they are cut.

    Attributes:
        lowercase: Whether words are lower-cased.
        strip_accents: Whether they lose their accents; None: where they are lower-cased.
        chinese: Whether every Chinese character is a word of its own.
    """

    lowercase: bool = True
    strip_accents: bool | None = None
    chinese: bool = True

    def normalizer(self) -> Any:
        """The normaliser of the tokenizers library."""
        from tokenizers import normalizers

        return normalizers.BertNormalizer(
            lowercase=self.lowercase, strip_accents=self.strip_accents, handle_chinese_chars=self.chinese
        )

    def to_dict(self) -> dict[str, bool | None]:
        """As tokenizer_config.json has it, without what is BERT's own beside ``do_lower_case``."""
        values = {key: getattr(self, name) for key, name in _SETTINGS.items()}
        usual = {key: getattr(Casing(), name) for key, name in _SETTINGS.items()}
        return {key: value for key, value in values.items() if key == "do_lower_case" or value != usual[key]}


@dataclass(frozen=True)
class Vocabulary:
    """What is taken from a tokenizer.

    Attributes:
        pieces: Pieces by id.
        casing: How words are changed; byte-level BPE does not change any.
        merges: Merges of byte-level BPE as in RoBERTa, or None for BERT's WordPiece.
    """

    pieces: tuple[str, ...]
    casing: Casing
    merges: Merges | None = None

    @property
    def special(self) -> tuple[str, str, str, str, str]:
        """Names of the special tokens: padding, unknown, first, last, masked."""
        return SPECIAL if self.merges is None else ROBERTA_SPECIAL

    def tokenizer(self) -> Any:
        """A tokenizer of the tokenizers library, which reads no special token out of a text.

        Byte-level BPE cuts each text as if a blank came before it.
        """
        from tokenizers import Tokenizer, decoders, models, pre_tokenizers

        ids = {piece: number for number, piece in enumerate(self.pieces)}
        if self.merges is None:
            made = Tokenizer(models.WordPiece(ids, unk_token=self.special[1]))
            made.normalizer = self.casing.normalizer()
            made.pre_tokenizer, made.decoder = pre_tokenizers.BertPreTokenizer(), decoders.WordPiece()
        else:
            made = Tokenizer(models.BPE(ids, list(self.merges), unk_token=self.special[1]))
            made.pre_tokenizer, made.decoder = pre_tokenizers.ByteLevel(add_prefix_space=True), decoders.ByteLevel()
        return made


def read_vocabulary(folder: Path) -> Vocabulary:
    """The vocabulary of a folder: ``tokenizer.json``, else ``vocab.txt``, else ``vocab.json`` with ``merges.txt``.

    What ``tokenizer_config.json`` says goes before the normaliser of ``tokenizer.json``, as in transformers.

    Raises:
        AuditError: There is none, or it is damaged or neither BERT's nor RoBERTa's.
    """
    if is_there(path := folder / "tokenizer.json"):
        read = _from_json
    elif is_there(path := folder / "vocab.txt"):
        read = _from_text
    elif is_there(path := folder / "vocab.json"):
        read = _from_pairs
    else:
        raise AuditError(
            f"{folder} has no tokenizer (tokenizer.json, vocab.txt or vocab.json and merges.txt)",
            "Copy the tokenizer that the model was trained with beside the weights",
        )
    try:
        pieces, casing, merges = read(path)
        require_pieces(pieces)
    except (ValueError, TypeError, KeyError, AttributeError, OSError) as error:
        reason = " ".join(str(error).split())[:120] if isinstance(error, ValueError | KeyError) else "it is damaged"
        raise AuditError(
            f"{path} is no vocabulary of BERT's word pieces or RoBERTa's byte pairs: {reason}", "Copy it again"
        ) from error
    beside = folder / "tokenizer_config.json"
    try:
        said = _flags(read_settings(beside), _SETTINGS) if merges is None else {}
        return Vocabulary(pieces, Casing(**(casing | said)), merges)
    except ValueError as error:
        raise AuditError(f"{beside}: {error}", "Copy it again") from error


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


_Read = tuple[tuple[str, ...], dict[str, Any], Merges | None]
"""Pieces, what is said of casing, and merges."""


def _from_text(path: Path) -> _Read:
    return tuple(_lines(path)), {}, None


def _from_pairs(path: Path) -> _Read:
    lines = _lines(path.with_name("merges.txt"))
    merges = [line for line in lines if line.strip() and not line.startswith("#version")]
    return _by_id(read_json(path, limit=LARGEST_TOKENIZER)), {}, _pairs(merges)


def _lines(path: Path) -> list[str]:
    lines = read_text(path, limit=LARGEST_TOKENIZER, remedy="Copy it again from its source").split("\n")
    return [line.rstrip("\r") for line in (lines if lines[-1] else lines[:-1])]


def _from_json(path: Path) -> _Read:
    """Only pieces and merges are taken over, and the settings of BERT's own normaliser that differ between models."""
    content = read_json(path, limit=LARGEST_TOKENIZER)
    model = content["model"]
    if model.get("type") == "BPE":
        return _byte_pairs(content)
    if model.get("type", "WordPiece") != "WordPiece" or model.get("continuing_subword_prefix", "##") != "##":
        raise ValueError("its model is neither WordPiece nor byte-level BPE")
    normalizer = content.get("normalizer") or {}
    if normalizer.get("type") != "BertNormalizer":
        raise ValueError("its normaliser is not BERT's")
    pieces = _every(content)
    if any("\n" in piece for piece in pieces):
        raise ValueError("a piece has a line break")
    return pieces, _flags(normalizer, _NORMALIZER), None


def _byte_pairs(content: Mapping[str, Any]) -> _Read:
    """Byte-level BPE that cuts words as RoBERTa does: no normaliser, no marks at the edges of words."""
    model, cut = content["model"], content.get("pre_tokenizer") or {"type": "ByteLevel"}
    parts = cut.get("pretokenizers") or [cut] if cut.get("type") == "Sequence" else [cut]
    marked = any(model.get(name) for name in ("continuing_subword_prefix", "end_of_word_suffix", "byte_fallback"))
    if [part.get("type") for part in parts] != ["ByteLevel"] or content.get("normalizer") or marked:
        raise ValueError("its BPE is not RoBERTa's")
    return _every(content), {}, _pairs(model["merges"])


def _every(content: Mapping[str, Any]) -> tuple[str, ...]:
    """Pieces and added tokens by id."""
    added = {token["content"]: token["id"] for token in content.get("added_tokens") or []}
    return _by_id({**content["model"]["vocab"], **added})


def _pairs(merges: Sequence[Any]) -> Merges:
    require_pieces(merges_as_texts := [merge if isinstance(merge, str) else " ".join(merge) for merge in merges])
    pairs = [tuple(text.split(" ")) for text in merges_as_texts]
    if any(len(pair) != 2 for pair in pairs):
        raise ValueError("a merge is no pair")
    return tuple((left, right) for left, right in pairs)


def _by_id(vocabulary: Mapping[Any, Any]) -> tuple[str, ...]:
    if set(vocabulary.values()) != set(range(len(vocabulary))):
        raise ValueError("its ids do not count from 0")
    return tuple(str(piece) for piece in sorted(vocabulary, key=vocabulary.__getitem__))


def _flags(content: Any, names: Mapping[str, str]) -> dict[str, Any]:
    """The settings that are given, by attribute of Casing; ``strip_accents`` may be null.

    Raises:
        ValueError: One is neither true nor false.
    """
    found: dict[str, Any] = {}
    for key, name in names.items():
        if not isinstance(content, Mapping) or key not in content:
            continue
        value = content[key]
        if not isinstance(value, bool) and not (value is None and name == "strip_accents"):
            raise ValueError(f"{key} is neither true nor false")
        found[name] = value
    return found
