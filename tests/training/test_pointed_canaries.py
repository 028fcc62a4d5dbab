"""Document canaries of a LayoutLM, which points to words of the page."""

from __future__ import annotations

import json
import secrets
from pathlib import Path
from random import Random

import pytest
import torch
from transformers import LayoutLMv3ForQuestionAnswering

from pfl_audit.documents.corpus import Corpus
from pfl_audit.documents.synthetic.canaries import draw_canaries
from pfl_audit.privacy.canary_coins import RECORD
from pfl_audit.progress import Silent
from pfl_audit.training.verify import Expected, measure_canaries, read_coins
from tests.models.layoutlm.conftest import save_network, train_byte_pairs
from tests.training.test_families import train

SALT = "ab" * 32


@pytest.fixture
def start(red: Corpus, tmp_path: Path) -> Path:
    """A LayoutLMv3 that is large enough to learn some pages by heart."""
    folder = tmp_path / "start"
    folder.mkdir()
    train_byte_pairs(sorted({word for query in red.queries for word in query.document.words}), folder)
    save_network("v3", folder, width=96)
    network = LayoutLMv3ForQuestionAnswering.from_pretrained(folder)
    torch.manual_seed(0)
    for parameter in network.parameters():
        if parameter.dim() > 1:
            torch.nn.init.normal_(parameter, std=0.05)
    network.save_pretrained(folder)
    return folder


def test_the_value_is_a_word_that_the_page_has_once(tmp_path: Path) -> None:
    plain, pointed = (draw_canaries(range(6), SALT, tmp_path, Silent(), pointed=kind) for kind in (False, True))
    for one, other in zip(plain, pointed, strict=True):
        assert (one.document.digest, one.question) == (other.document.digest, other.question)
        assert [word.lower() for word in other.document.words].count(other.answers[0]) == 1
    assert len({query.answers for query in pointed}) > 3


@pytest.mark.slow
def test_a_model_that_memorized_its_canaries_is_found(
    start: Path, corpus_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn = Random(0)  # a test of chance has one outcome
    monkeypatch.setattr(secrets, "token_bytes", drawn.randbytes)
    monkeypatch.setattr(secrets, "token_hex", lambda size: drawn.randbytes(size).hex())
    out = tmp_path / "out"
    words = ["--audit-canaries", "24", "--canary-guesses", "12", "--providers-share", "0.1"]
    train(corpus_folder, start, out, *words, "--steps", "150", "--batch-size", "8", "--validate-every", "1000")
    assert json.loads((out / RECORD).read_text())["pointed"] is True
    coins, manifest = read_coins(out, Expected())
    assert coins.status == "verified"
    assert manifest is not None
    _, bounds = measure_canaries(out, manifest, None, start, "cpu", tmp_path / "pages", Silent())
    assert bounds.guesses.correct >= 11  # of 12 fair coins, with a probability of 0.3 %
    _, bounds = measure_canaries(start, manifest, None, None, "cpu", tmp_path / "pages", Silent())
    assert bounds.guesses.correct < 11
