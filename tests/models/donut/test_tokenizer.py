import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pfl_audit.errors import AuditError
from pfl_audit.models.donut.small import PIECES
from pfl_audit.models.donut.tokenizer import MARKS, UNK, DonutTokenizer

from ...oracles import donut as oracle

Make = Callable[[str], Path]
TEXTS = ("What is the Total?", "42.10", "a  b", " a ", "", "Überweisung", "\u65e5\u672c", "don't", "a" * 200, "a\tb\nc")
HALVES = "Who \ud800?"
NO_MARKS = st.text().filter(lambda text: "<" not in text)


@pytest.fixture
def folder(make_donut: Make, tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """A copy of a folder; with a tokenizer.json where a test asks for nothing else."""
    return Path(shutil.copytree(make_donut(getattr(request, "param", "theirs")), tmp_path / "ckpt"))


@pytest.mark.parametrize("kind", ["ours", "theirs"])
def test_text_is_cut_and_joined_as_the_library_does(make_donut: Make, kind: str) -> None:
    tokenizer, library = DonutTokenizer.open(make_donut(kind)), oracle.tokenizer_of(make_donut(kind))
    assert [list(tokenizer.encode(text)) for text in TEXTS] == [library.encode(text) for text in TEXTS]
    assert [tokenizer.decode(tokenizer.encode(text)) for text in TEXTS] == [
        library.decode([token for token in library.encode(text) if token != tokenizer.id(UNK)]) for text in TEXTS
    ]
    assert [tokenizer.id(name) for name in MARKS] == [library.id(name) for name in MARKS]
    assert tokenizer.encode(HALVES) == tokenizer.encode("Who ??")


@pytest.fixture(scope="session")
def normalising(make_donut: Make, tmp_path_factory: pytest.TempPathFactory) -> tuple[DonutTokenizer, Any]:
    """A tokenizer.json with SentencePiece's own table compiled in, as XLM-R's; ours, and the library's."""
    import base64

    from tokenizers import Tokenizer
    from transformers.convert_slow_tokenizer import import_protobuf

    model = import_protobuf().ModelProto()  # a second definition of the format would be refused in this process
    model.ParseFromString((make_donut("ours") / "spiece.model").read_bytes())
    table = base64.b64encode(model.normalizer_spec.precompiled_charsmap).decode()
    content = json.loads((make_donut("theirs") / "tokenizer.json").read_text())
    content["normalizer"] = {"type": "Precompiled", "precompiled_charsmap": table}
    folder = tmp_path_factory.mktemp("normalising")
    (folder / "tokenizer.json").write_text(json.dumps(content))
    return DonutTokenizer.open(folder), Tokenizer.from_file(str(folder / "tokenizer.json"))


@settings(max_examples=200, deadline=None)
@given(NO_MARKS)
def test_xlm_r_normalises_so_without_its_table_being_carried_out(
    normalising: tuple[DonutTokenizer, Any], text: str
) -> None:
    ours, library = normalising
    assert list(ours.encode(text)) == library.encode(text, add_special_tokens=False).ids


@pytest.mark.parametrize("kind", ["ours", "theirs"])
def test_special_tokens_are_not_read_out_of_a_question(make_donut: Make, kind: str) -> None:
    tokenizer = DonutTokenizer.open(make_donut(kind))
    library = oracle.tokenizer_of(make_donut(kind))
    specials = {library.id(name) for name in PIECES} - {library.id(UNK)}
    for name in PIECES:
        assert not specials & set(tokenizer.encode(f"Who{name} is {name}? {name}"))
    assert tokenizer.decode([*sorted(specials), -1, 10**9, *tokenizer.encode("the total")]) == "the total"


@settings(max_examples=50, deadline=None)
@given(st.lists(st.sampled_from([*PIECES, "a", " ", "total", "\u2581", "\0"]), max_size=8))
def test_a_question_never_leaves_its_place(make_donut: Make, parts: list[str]) -> None:
    for kind in ("ours", "theirs"):
        tokenizer = DonutTokenizer.open(make_donut(kind))
        assert not {tokenizer.id(name) for name in MARKS} & set(tokenizer.encode("".join(parts)))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda c: c["model"].update(type="WordPiece"), "no unigram vocabulary"),
        (lambda c: c["model"].update(byte_fallback=True), "falls back to bytes"),
        (lambda c: c["model"]["vocab"][9].__setitem__(1, float("nan")), "score of a piece is not finite"),
        (lambda c: c["model"]["vocab"].clear(), "damaged"),
        (lambda c: c["model"]["vocab"].__setitem__(9, "x"), "damaged"),
        (lambda c: c["model"].update(unk_id=10**6), "its unknown piece is not <unk>"),
        (lambda c: c["model"].update(unk_id=None), "its unknown piece is not <unk>"),
        (lambda c: c["added_tokens"].pop(), "it has no </s_answer>"),
        (lambda c: c["added_tokens"][-1].update(content="<s_anwser>"), "it has no </s_answer>"),
        (lambda c: c["added_tokens"][-1].update(id=2), "two of its special tokens have the same number"),
        (lambda c: c["added_tokens"][-1].update(id=-1), "number of a token is no whole number"),
        (lambda c: c["added_tokens"][-1].update(id="144"), "number of a token is no whole number"),
        (lambda c: c.update(added_tokens=3), "damaged"),
        (lambda c: c.update(normalizer={"type": "Lowercase"}), "normalises text in another way"),
        (lambda c: c.update(normalizer={"type": "Sequence", "normalizers": [{"type": "Prepend"}]}), "in another way"),
        (lambda c: c.update(normalizer=[1]), "damaged"),
        (lambda c: c.update(model=[]), "damaged"),
    ],
)
def test_a_tokenizer_that_is_none(folder: Path, change: Callable[[Any], object], message: str) -> None:
    content = json.loads((folder / "tokenizer.json").read_text())
    change(content)
    (folder / "tokenizer.json").write_text(json.dumps(content))
    with pytest.raises(AuditError, match=f"the tokenizer of .* cannot be used: .*(?:{message})"):
        DonutTokenizer.open(folder)


def test_no_rule_of_the_file_is_carried_out(folder: Path) -> None:
    before = DonutTokenizer.open(folder)
    content = json.loads((folder / "tokenizer.json").read_text())
    evil = {"type": "Replace", "pattern": {"Regex": "(a+)+$"}, "content": "evil"}
    content |= {"normalizer": evil, "pre_tokenizer": {"type": "evil"}, "post_processor": 3, "decoder": evil}
    (folder / "tokenizer.json").write_text(json.dumps(content))
    after = DonutTokenizer.open(folder)
    text = "a" * 2000 + "! the total"
    assert after.encode(text) == before.encode(text)
    assert after.decode(before.encode("the total")) == "the total"


@pytest.mark.parametrize("folder", ["ours", "theirs"], indirect=True)
def test_damaged_or_missing(folder: Path) -> None:
    name = "spiece.model" if (folder / "spiece.model").is_file() else "tokenizer.json"
    (folder / name).write_bytes(b"\xff\xfe\0{")
    with pytest.raises(AuditError, match="tokenizer"):
        DonutTokenizer.open(folder)
    (folder / name).unlink()
    with pytest.raises(AuditError, match=r"has no tokenizer \(spiece\.model or tokenizer\.json\)"):
        DonutTokenizer.open(folder)


def test_pieces_of_another_model(tmp_path: Path) -> None:
    from sentencepiece import SentencePieceTrainer

    with (tmp_path / "spiece.model").open("wb") as file:
        SentencePieceTrainer.train(sentence_iterator=iter(["abc abd"]), model_writer=file, vocab_size=9, minloglevel=2)
    with pytest.raises(AuditError, match="it has no <s_docvqa>"):
        DonutTokenizer.open(tmp_path)
