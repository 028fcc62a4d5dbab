from collections.abc import Callable
from pathlib import Path

import pytest
from sentencepiece import SentencePieceNormalizer

from pfl_audit.models import sentencepiece_file
from pfl_audit.models.sentencepiece_file import UnfitTokenizerError, read_sentencepiece, require_table
from tests.hostile.door_tokenizer import field, piece


def table_of(rule: str) -> bytes:
    """A table that SentencePiece itself has compiled in."""
    proto = memoryview(SentencePieceNormalizer(rule_name=rule).serialized_model_proto())
    fields = sentencepiece_file._fields
    (table,) = [bytes(v) for n, part in fields(proto) if n == 3 for m, v in fields(part) if m == 2]
    return table


@pytest.mark.parametrize("rule", ["nmt_nfkc", "nfkc", "nmt_nfkc_cf", "nfkc_cf", "identity"])
def test_the_tables_of_sentencepiece_pass(rule: str) -> None:
    require_table(table_of(rule))


@pytest.mark.parametrize(
    "change",
    [
        lambda table: table[:3],
        lambda table: table[: len(table) // 2],
        lambda table: table[:-1],
        lambda table: table[:4] + b"\xff\xff\xff\x7f" + table[8:],
        lambda table: table[:4] + (0x80000000).to_bytes(4, "little") + table[8:],
        lambda table: table[:-1] + b"a" * 100 + b"\0",
    ],
)
def test_a_damaged_table_is_refused(change: Callable[[bytes], bytes]) -> None:
    with pytest.raises(UnfitTokenizerError, match="normaliser"):
        require_table(change(table_of("nmt_nfkc")))


def test_the_fixtures_pass_and_are_not_changed() -> None:
    for name in ("donut", "vt5-finetuned"):
        path = Path("fixtures") / name / "spiece.model"
        assert read_sentencepiece(path) == path.read_bytes()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (piece(b"a" * 2000), "one that is too long"),
        (field(2, b"\0" * (2 << 20)), "more than a vocabulary"),
        (b"\x0b", "damaged"),
        (b"\x0a\x7f", "damaged"),
        (b"\xff" * 20, "damaged"),
        (b"\x9a\x80\x80\x80\x80\x80\x80\x80\x01\x01a", "damaged"),
    ],
)
def test_a_damaged_model_is_refused(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "spiece.model").write_bytes(content)
    with pytest.raises(UnfitTokenizerError, match=message):
        read_sentencepiece(tmp_path / "spiece.model")
