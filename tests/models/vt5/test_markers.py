"""Checkpoints with the added tokens of self-pretraining: saved, opened, audited, trained further."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from pfl_audit.cli.main import run
from pfl_audit.documents.corpus import Corpus
from pfl_audit.errors import AuditError
from pfl_audit.models.self_pretraining import MARKERS
from pfl_audit.models.vt5.checkpoint import load_vt5, save_vt5
from pfl_audit.models.vt5.markers import add_markers, with_markers
from pfl_audit.models.vt5.model import Vt5Model
from pfl_audit.models.vt5.tokenizer import Tokenizer
from tests.conftest import ROWS


@pytest.fixture
def marked(make_checkpoint: Callable[[int], Path], tmp_path: Path) -> Path:
    network = load_vt5(make_checkpoint(0)).network
    assert add_markers(network) == add_markers(network) == ROWS
    save_vt5(network, make_checkpoint(0), tmp_path / "marked", extra={})
    return tmp_path / "marked"


def test_the_embedding_grows_and_the_rest_stays(make_checkpoint: Callable[[int], Path], marked: Path) -> None:
    before, loaded = load_vt5(make_checkpoint(0)).network.state_dict(), load_vt5(marked)
    after = loaded.network.state_dict()
    assert before.keys() == after.keys()
    for name, tensor in after.items():
        assert torch.equal(tensor[: len(before[name])], before[name]), name
        assert len(tensor) - len(before[name]) == (len(MARKERS) if len(before[name]) == ROWS else 0), name
    assert (loaded.network.config.markers, loaded.tokenizer.size) == (ROWS, ROWS + len(MARKERS))


def test_an_output_layer_of_its_own_grows_with_the_embedding(make_checkpoint: Callable[[int], Path]) -> None:
    network = load_vt5(make_checkpoint(0)).network
    backbone = network.language_backbone
    backbone.lm_head.weight = nn.Parameter(2 * backbone.lm_head.weight.detach())
    add_markers(network)
    assert backbone.lm_head.weight.shape == backbone.shared.weight.shape
    assert torch.equal(backbone.lm_head.weight[:ROWS], 2 * backbone.shared.weight[:ROWS])


def test_no_text_is_read_as_an_added_token(make_checkpoint: Callable[[int], Path], marked: Path) -> None:
    old, new = Tokenizer.open(make_checkpoint(0)), Tokenizer.open(marked)
    text = f"total {MARKERS[0]} {MARKERS[-1]} 42"
    assert new.encode(text) == old.encode(text)
    assert new.decode([*old.encode("total"), ROWS, ROWS + len(MARKERS) - 1]) == "total"


def test_a_tokenizer_that_has_them_stays_as_it_is(marked: Path) -> None:
    content = (marked / "spiece.model").read_bytes()
    assert with_markers("spiece.model", content, ROWS) == content


def test_a_fast_tokenizer_gets_them_too(tmp_path: Path) -> None:
    pieces = [["<pad>", 0.0], ["</s>", 0.0], ["<unk>", 0.0], ["▁total", -1.0], *([f"{c}", -2.0] for c in "<>/_0lectx")]
    content = {"model": {"type": "Unigram", "unk_id": 2, "vocab": pieces}, "added_tokens": []}
    edited = with_markers("tokenizer.json", json.dumps(content).encode(), 20)
    (tmp_path / "tokenizer.json").write_bytes(edited)
    tokenizer = Tokenizer.open(tmp_path)
    assert tokenizer.size == 20 + len(MARKERS)
    assert max(tokenizer.encode("<loc_0>")) < 20
    assert with_markers("tokenizer.json", edited, 20) == edited


@pytest.mark.parametrize("content", [b"{", b"[]", b"{}", b'{"model": {"vocab": 3}}'])
def test_a_damaged_fast_tokenizer_is_refused(content: bytes) -> None:
    with pytest.raises(AuditError, match=r"tokenizer\.json of the start is damaged"):
        with_markers("tokenizer.json", content, 20)


def test_it_answers_and_is_trained_further(marked: Path, corpus_folder: Path, red: Corpus, tmp_path: Path) -> None:
    assert len(Vt5Model(marked).respond(red.queries[:2])) == 2
    out = tmp_path / "further"
    words = ["train", "--data", str(corpus_folder), "--from", str(marked), "--out", str(out), "--steps", "2", "-q"]
    assert run([*words, "--batch-size", "2"]) == 0
    assert run(["inspect", str(out)]) == 0
    assert load_vt5(out).network.config.markers == ROWS


@pytest.mark.parametrize("first", [0, ROWS + 1, "x", True, 2**70])
def test_numbers_that_cannot_be_are_refused(marked: Path, first: Any) -> None:
    config = json.loads((marked / "config.json").read_text())
    (marked / "config.json").write_text(json.dumps({**config, "vt5_markers": first}))
    with pytest.raises(AuditError, match="vt5_markers"):
        load_vt5(marked)


def test_a_tokenizer_without_them_is_refused(marked: Path, make_checkpoint: Callable[[int], Path]) -> None:
    (marked / "spiece.model").write_bytes((make_checkpoint(0) / "spiece.model").read_bytes())
    with pytest.raises(AuditError, match="tokens of self-pretraining"):
        load_vt5(marked)
