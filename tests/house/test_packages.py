"""Packages that the pins bring together work together."""

import shutil
import tomllib
from pathlib import Path

from packaging.requirements import Requirement
from transformers import AutoTokenizer

ROOT = Path(__file__).parents[2]


def test_a_folder_with_spiece_model_alone_has_a_tokenizer(tmp_path: Path) -> None:
    """sentencepiece's generated code asks for a protobuf of its own or later; 0.2.3 for 7, which flwr excludes."""
    shutil.copy(ROOT / "fixtures/vt5-finetuned/spiece.model", tmp_path)
    (tmp_path / "config.json").write_text('{"model_type": "t5"}')
    tokenizer = AutoTokenizer.from_pretrained(tmp_path)
    assert len(tokenizer) == 1000 + 100  # pieces, and T5's extra ids
    assert tokenizer.decode(tokenizer("Invoice total", add_special_tokens=False)["input_ids"]) == "Invoice total"


def test_what_breaks_the_pair_is_excluded() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    asked = [Requirement(text) for text in extras["flower"]]
    (pieces,) = [one for one in asked if one.name == "sentencepiece"]
    assert not pieces.specifier.contains("0.2.3")
    assert pieces.specifier.contains("0.2.2")
