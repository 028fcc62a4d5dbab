"""Document canaries of a LayoutLM, which points to words of the page."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from pfl_audit.documents.synthetic.canaries import draw_canaries
from pfl_audit.privacy.canary_coins import RECORD
from pfl_audit.progress import Silent
from pfl_audit.training.verify import Expected, measure_canaries, read_coins
from tests.models.layoutlm.conftest import make_qa
from tests.training.test_families import train

__all__ = ["make_qa"]
SALT = "ab" * 32
LONG = ("--batch-size", "16", "--learning-rate", "3e-3")


def test_the_value_is_a_word_that_the_page_has_once(tmp_path: Path) -> None:
    plain, pointed = (draw_canaries(range(6), SALT, tmp_path, Silent(), pointed=kind) for kind in (False, True))
    for one, other in zip(plain, pointed, strict=True):
        assert (one.document.digest, one.question) == (other.document.digest, other.question)
        assert [word.lower() for word in other.document.words].count(other.answers[0]) == 1
    assert len({query.answers for query in pointed}) > 3


def test_a_model_that_memorized_its_canaries_is_found(
    make_qa: Callable[[str], Path], corpus_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn = Random(0)  # a test of chance has one outcome
    monkeypatch.setattr(secrets, "token_bytes", drawn.randbytes)
    monkeypatch.setattr(secrets, "token_hex", lambda size: drawn.randbytes(size).hex())
    start, out = make_qa("v1"), tmp_path / "out"
    words = ["--audit-canaries", "40", "--canary-guesses", "20", "--providers-share", "0.1"]
    train(corpus_folder, start, out, *words, "--steps", "300", "--validate-every", "1000", *LONG)
    assert json.loads((out / RECORD).read_text())["pointed"] is True
    coins, manifest = read_coins(out, Expected())
    assert coins.status == "verified"
    assert manifest is not None
    _, bounds = measure_canaries(out, manifest, None, start, "cpu", tmp_path / "pages", Silent())
    assert bounds.guesses.correct >= 17  # of 20 fair coins, with a probability of 0.13 %
    _, bounds = measure_canaries(start, manifest, None, None, "cpu", tmp_path / "pages", Silent())
    assert bounds.guesses.correct < 16
