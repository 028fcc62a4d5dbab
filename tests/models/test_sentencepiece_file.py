from pathlib import Path

import pytest

from pfl_audit.errors import AuditError
from pfl_audit.models.confined_pieces import Pieces, _child
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


def test_no_child_is_left_of_a_model_that_is_refused() -> None:
    content = _SPIECE["10 MB beside the pieces"]()
    with pytest.raises(UnfitTokenizerError, match="too large for those that it has"):
        Pieces("sentencepiece", content, "spiece.model")
    assert _child("sentencepiece", content)._child is None


class Forger:
    """A child that answers as it likes."""

    def __init__(self, **answers: object) -> None:
        self._answers, self.closed = answers, False

    def call(self, what: str, _: object) -> object:
        return self._answers[what]

    def close(self) -> None:
        self.closed = True


TRUE = {"size": 5, "ids": {"<s>": 4}, "special": [0, 1, 2]}


@pytest.mark.parametrize(
    "forged",
    [
        None,
        [],
        {},
        TRUE | {"size": "5"},
        TRUE | {"size": -5, "ids": {}},
        TRUE | {"size": 1 << 40},
        TRUE | {"ids": [4]},
        TRUE | {"ids": {"<s>": 5}},
        TRUE | {"ids": {"<s>": -1}},
        TRUE | {"ids": {"<s>": "4"}},
        TRUE | {"special": 0},
    ],
)
def test_a_forged_description_is_refused(monkeypatch: pytest.MonkeyPatch, forged: object) -> None:
    child = Forger(describe=forged)
    monkeypatch.setattr("pfl_audit.models.confined_pieces._child", lambda *_: child)
    with pytest.raises(UnfitTokenizerError):
        Pieces("sentencepiece", b"", "spiece.model")
    assert child.closed


@pytest.mark.parametrize("forged", [None, {}, [], [[1], [2]], [None], ["1"], [[5]], [[-1]], [[1.0]], [[True]], [["1"]]])
def test_forged_ids_are_refused(monkeypatch: pytest.MonkeyPatch, forged: object) -> None:
    monkeypatch.setattr("pfl_audit.models.confined_pieces._child", lambda *_: Forger(describe=TRUE, encode=forged))
    with pytest.raises(AuditError, match=r"spiece\.model has rules of its own that cannot be used"):
        Pieces("sentencepiece", b"", "spiece.model").encode(["a"])


@pytest.mark.parametrize("forged", [None, [], [3], ["a", "b"], {"a": 1}])
def test_a_forged_text_is_refused(monkeypatch: pytest.MonkeyPatch, forged: object) -> None:
    monkeypatch.setattr("pfl_audit.models.confined_pieces._child", lambda *_: Forger(describe=TRUE, decode=forged))
    with pytest.raises(AuditError, match="cannot be used"):
        Pieces("sentencepiece", b"", "spiece.model").decode([1])
