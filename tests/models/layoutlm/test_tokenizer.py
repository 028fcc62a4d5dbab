import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from transformers import BertTokenizer, RobertaTokenizer

from pfl_audit.errors import AuditError
from pfl_audit.models.layoutlm.tokenizer import WordTokenizer

Make = Callable[[str], Path]
WORDS = ("Total", "Überweisung", "42.10", "e-mail@example.com", "", " ", "日本", "don't", "[SEP]", "</s>", "a" * 200)


@pytest.fixture
def folder(make_qa: Make, tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """A copy of a folder; of WordPiece where a test asks for nothing else."""
    return Path(shutil.copytree(make_qa(getattr(request, "param", "v1")), tmp_path / "ckpt"))


def as_json(folder: Path, **settings: Any) -> dict[str, Any]:
    """Turn the tokenizer into transformers' one file, and return its content."""
    bert = (folder / "vocab.txt").is_file()
    (BertTokenizer if bert else RobertaTokenizer).from_pretrained(folder, **settings).save_pretrained(folder)
    for name in ("vocab.txt", "vocab.json", "merges.txt"):
        (folder / name).unlink(missing_ok=True)
    return json.loads((folder / "tokenizer.json").read_text())


@pytest.mark.parametrize("folder", ["v1", "v1-bpe"], indirect=True)
def test_one_file_and_the_vocabulary_make_the_same_tokenizer(folder: Path) -> None:
    before = WordTokenizer.open(folder)
    as_json(folder)
    after = WordTokenizer.open(folder)
    assert (after.size, after.frame) == (before.size, before.frame)
    assert [*map(after.encode, WORDS)] == [*map(before.encode, WORDS)]
    assert before.encode("") == ()


def test_special_tokens_are_not_read_out_of_a_page(make_qa: Make) -> None:
    for kind, specials in (("v1", ("[SEP]", "[CLS]", "[PAD]")), ("v3", ("</s>", "<s>", "<pad>"))):
        tokenizer = WordTokenizer.open(make_qa(kind))
        given = {*tokenizer.frame.before, *tokenizer.frame.between, *tokenizer.frame.after}
        assert all(len(ids) > 1 and not given & set(ids) for ids in map(tokenizer.encode, specials))


def test_casing_is_the_checkpoints(folder: Path) -> None:
    def same(one: str, other: str) -> bool:
        tokenizer = WordTokenizer.open(folder)
        return tokenizer.encode(one) == tokenizer.encode(other)

    assert same("Total", "total")
    (folder / "tokenizer_config.json").write_text('{"do_lower_case": false}')
    assert not same("Total", "total")
    content = as_json(folder, do_lower_case=False)
    (folder / "tokenizer_config.json").unlink()
    assert content["normalizer"]["lowercase"] is False
    assert not same("Total", "total")
    (folder / "tokenizer_config.json").write_text('{"do_lower_case": true}')
    assert same("Total", "total")


@pytest.mark.parametrize(
    ("folder", "change", "message"),
    [
        ("v1", {"model": {"type": "Unigram", "vocab": []}}, "neither WordPiece nor byte-level BPE"),
        ("v1", {"normalizer": {"type": "Prepend", "prepend": "x"}}, "normaliser is not BERT's"),
        ("v1", {"model": {"type": "WordPiece", "vocab": {"[CLS]": 0}}, "added_tokens": []}, r"has no \[SEP\]"),
        ("v1", {"model": {"type": "WordPiece", "vocab": {"a": -1}}}, "ids do not count from 0"),
        ("v1", {"model": {"type": "WordPiece", "vocab": {"a": "b"}}}, "ids do not count from 0"),
        ("v1", {"model": {"type": "WordPiece", "vocab": {"a": 1 << 70}}}, "ids do not count from 0"),
        ("v1", {"model": 3}, "damaged"),
        ("v1", {"added_tokens": [3]}, "damaged"),
        ("v1-bpe", {"model": {"type": "BPE", "vocab": {"a": 5}, "merges": [["x", "y"]]}}, "damaged"),
        ("v1-bpe", {"model": {"type": "BPE", "vocab": {"a": 5}, "merges": ["x"]}}, "a merge is no pair"),
        ("v1-bpe", {"model": {"type": "BPE", "vocab": {}, "merges": []}, "added_tokens": []}, "has no <s>"),
    ],
    indirect=["folder"],
)
def test_a_tokenizer_that_is_none(folder: Path, change: dict[str, Any], message: str) -> None:
    (folder / "tokenizer.json").write_text(json.dumps({**as_json(folder), **change}))
    with pytest.raises(AuditError, match=f"tokenizer.* (cannot be used|is no vocabulary).*: .*{message}"):
        WordTokenizer.open(folder)


@pytest.mark.parametrize("folder", ["v1", "v1-bpe"], indirect=True)
def test_damaged_or_missing_vocabularies(folder: Path) -> None:
    name = "vocab.txt" if (folder / "vocab.txt").is_file() else "vocab.json"
    (folder / name).write_bytes(b"\xff\xfe\0{")
    with pytest.raises(AuditError, match=rf"{name} is not UTF-8 text"):
        WordTokenizer.open(folder)
    (folder / name).unlink()
    with pytest.raises(AuditError, match=r"has no tokenizer \(tokenizer\.json, vocab\.txt or"):
        WordTokenizer.open(folder)


@pytest.mark.parametrize("content", ["[1]", "3", "null", "{"])
def test_settings_that_are_none(folder: Path, content: str) -> None:
    (folder / "tokenizer_config.json").write_text(content)
    with pytest.raises(AuditError, match="tokenizer"):
        WordTokenizer.open(folder)


@pytest.mark.parametrize(("value", "longest"), [(512, 512), (int(1e30), None), (0, None), ("many", None), (1.5, None)])
def test_the_longest_input_is_taken_where_it_is_a_number(folder: Path, value: object, longest: int | None) -> None:
    (folder / "tokenizer_config.json").write_text(json.dumps({"model_max_length": value}))
    assert WordTokenizer.open(folder).longest == longest
