import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer as FastTokenizer

from pfl_audit.errors import AuditError
from pfl_audit.models.vt5.tokenizer import Tokenizer, without_frames

BLANK = "\u2581"
VOCABULARY = [["<pad>", 0.0], ["</s>", 0.0], ["<unk>", 0.0], [BLANK, -1.0], ["a", -1.0], ["b", -2.0]]
METASPACE = {"type": "Metaspace", "replacement": BLANK, "prepend_scheme": "always", "split": True}
SPLIT = {"type": "Split", "pattern": {"Regex": "(a*)*b|c"}, "behavior": "Isolated", "invert": False}


def content(**changes: Any) -> dict[str, Any]:
    return {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None,
        "pre_tokenizer": METASPACE, "post_processor": None, "decoder": {"type": "Metaspace", "replacement": BLANK},
        "model": {"type": "Unigram", "unk_id": 2, "vocab": VOCABULARY},
    } | changes  # fmt: skip


def opened(folder: Path, **changes: Any) -> Tokenizer:
    (folder / "tokenizer.json").write_text(json.dumps(content(**changes)))
    return Tokenizer.open(folder)


def replace(pattern: dict[str, str], text: str) -> dict[str, Any]:
    return {"type": "Replace", "pattern": pattern, "content": text}


def sequence(*rules: dict[str, Any]) -> dict[str, Any]:
    return {"type": "Sequence", "normalizers": list(rules)}


def test_what_frames_a_text_is_left_out() -> None:
    kept = without_frames(content(padding={"strategy": {"Fixed": 10**9}}, truncation={"max_length": 1}))
    assert kept["padding"] is kept["truncation"] is kept["post_processor"] is None


WORDS = {"type": "WordLevel", "unk_token": "<unk>", "vocab": {"<pad>": 0, "</s>": 1, "<unk>": 2, BLANK + "ab": 3}}


@pytest.mark.parametrize("changes", [{}, {"pre_tokenizer": SPLIT}, {"model": WORDS}])
def test_here_and_in_a_child_the_pieces_are_those_of_the_file(tmp_path: Path, changes: dict[str, Any]) -> None:
    tokenizer = opened(tmp_path, **changes)
    plain = FastTokenizer.from_file(str(tmp_path / "tokenizer.json"))
    plain.encode_special_tokens = True
    for text in ("ab", "b a", "", "</s>", "ü"):
        assert list(tokenizer.encode(text)) == plain.encode(text, add_special_tokens=False).ids
    assert tokenizer.size == plain.get_vocab_size()
    assert tokenizer.decode([3, 0, 1, 99]) == plain.decode([3])


def test_each_text_is_cut_once_and_none_is_kept() -> None:
    calls: list[list[str]] = []

    class Counting:
        def encode(self, texts: list[str]) -> list[tuple[int, ...]]:
            calls.append(texts)
            return [(len(text),) for text in texts]

    tokenizer = Tokenizer(Counting())  # type: ignore[arg-type]
    for _ in range(2):
        assert tokenizer.encode_all(["a", "bc", "a"]) == [(1,), (2,), (1,)]
    assert calls == [["a", "bc"]] * 2


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    "make",
    [
        lambda: {"normalizer": sequence(*[replace({"Regex": "."}, "a" * many) for many in (26, 800_000)])},
        lambda: {"pre_tokenizer": {"type": "Split", "pattern": {"Regex": "(a|a?)+$"}, "behavior": "Isolated",
                                   "invert": False}},
        lambda: {"normalizer": sequence(*[replace({"String": "a"}, "a" * 20)] * 3)},
    ],
)  # fmt: skip
def test_rules_that_flood_end_with_a_line(tmp_path: Path, make: Callable[[], dict[str, Any]]) -> None:
    tokenizer = opened(tmp_path, **make())
    began = time.process_time()
    with pytest.raises(AuditError, match=r"tokenizer\.json has rules of its own that cannot be used: they"):
        tokenizer.encode("a" * 40 + "!")
    assert time.process_time() - began < 5
