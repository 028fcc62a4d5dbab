from pathlib import Path

import pytest

from pfl_audit.models.confined_pieces import Pieces
from pfl_audit.models.sentencepiece_file import UnfitTokenizerError, read_sentencepiece
from tests.hostile.door_tokenizer import _SPIECE, field, piece


@pytest.mark.parametrize("name", ["donut", "vt5-finetuned"])
def test_a_child_cuts_as_sentencepiece_does(name: str) -> None:
    from sentencepiece import SentencePieceProcessor

    path = Path("fixtures") / name / "spiece.model"
    plain = SentencePieceProcessor(model_file=str(path))
    pieces = Pieces("sentencepiece", read_sentencepiece(path), str(path), ["<s>", "none"])
    texts = ["the total", "", "\u00e4 \ud83e\udd16", "a" * 400]
    texts = [text.encode("utf-16", "surrogatepass").decode("utf-16") for text in texts]
    assert pieces.encode(texts) == [tuple(plain.EncodeAsIds(text)) for text in texts]
    assert pieces.decode(pieces.encode(["the total"])[0]) == "the total"
    assert pieces.size == plain.GetPieceSize()
    assert pieces.ids.items() >= {plain.IdToPiece(at): at for at in range(pieces.size) if plain.IsControl(at)}.items()
    assert "none" not in pieces.ids


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "content",
    [
        piece(b"a" * 2000),
        field(2, b"\0" * (2 << 20)),
        b"\x0b",
        b"\xff" * 20,
        _SPIECE["a table that leads out"](),
        _SPIECE["a table with a value outside"](),
    ],
    ids=range(6),
)
def test_a_damaged_model_is_refused_in_the_child(content: bytes) -> None:
    with pytest.raises(UnfitTokenizerError):
        Pieces("sentencepiece", content, "spiece.model")
