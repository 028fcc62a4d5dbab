"""Where a training writes: what is there already is never written over."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from pfl_audit.cli.main import run
from pfl_audit.training.run import training_folder

Make = Callable[[int], Path]


@pytest.mark.parametrize("more", [[], ["--mode", "fl"], ["--lora", "2"]])
def test_a_checkpoint_without_a_record_keeps_its_weights(
    more: list[str], corpus_folder: Path, make_checkpoint: Make, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own = tmp_path / "own"
    shutil.copytree(make_checkpoint(0), own)
    before = {path.name: path.read_bytes() for path in own.iterdir()}
    start = ["--from", str(make_checkpoint(1))]
    assert run(["train", "--data", str(corpus_folder), "--out", str(own), *start, *more, "-q"]) == 4
    assert "holds files that this command did not make. Name another --out" in capsys.readouterr().err
    assert {path.name: path.read_bytes() for path in own.iterdir()} == before


def test_two_trainings_at_once(
    corpus_folder: Path, make_checkpoint: Make, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["train", "--data", str(corpus_folder), "--from", str(make_checkpoint(0)), "--out", str(tmp_path)]
    with training_folder(tmp_path, None):
        assert run([*arguments, "-q"]) == 2
    assert "is in use: another pfl-audit writes into it" in capsys.readouterr().err


@pytest.mark.sampled(1)
@pytest.mark.parametrize("wrong", [["--size", "huge"], ["--vocabulary", "900000"]])
def test_a_training_that_cannot_begin_leaves_nothing(wrong: list[str], corpus_folder: Path, tmp_path: Path) -> None:
    assert run(["train", "--data", str(corpus_folder), "--out", str(tmp_path / "a/b"), *wrong, "-q"]) == 4
    assert list(tmp_path.iterdir()) == []
