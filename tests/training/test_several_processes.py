"""Training by several processes: the weights of one, and what happens where one of them fails."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from pfl_audit.cli.main import run
from pfl_audit.errors import AuditError
from pfl_audit.models.question_training import QuestionExamples
from pfl_audit.models.weights import read_state
from pfl_audit.training.loop import STATE_FILE
from tests.command_server import CommandServer
from tests.conftest import save_tiny_vt5
from tests.training.started import Started

pytestmark = pytest.mark.slow

Make = Callable[[int], Path]
SHORT = ("--steps", "6", "--save-every", "2", "--validate-every", "3", "--optimizer", "sgd", "--learning-rate", "0.5")
LONG = ("--steps", "30", "--batch-size", "3", "--save-every", "2", "--validate-every", "100", "--learning-rate", "1e-3")


@pytest.fixture(scope="module")
def plain(make_checkpoint: Make, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny VT5 without dropout, whose draws differ between one process and several."""
    folder = tmp_path_factory.mktemp("plain") / "vt5"
    save_tiny_vt5(make_checkpoint(0), folder, 5, dropout=0.0)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "hidden_dropout_prob": 0.0}))
    return folder


def command(corpus: Path, start: Path, out: Path, *words: str) -> list[str]:
    return ["train", "--data", str(corpus), "--from", str(start), "--out", str(out), *words]


def largest_difference(one: Path, other: Path) -> float:
    first, second = read_state(one), read_state(other)
    alike = [name for name in first if first[name].shape == second[name].shape]
    assert len(alike) >= len(first) - 1  # self-pretraining adds rows to the embedding
    return max(float((first[name].float() - second[name].float()).abs().max()) for name in alike)


@pytest.mark.parametrize("batch", ["5", "1"])  # shares of 3 and 2 examples, and of 1 and none
def test_two_processes_end_with_the_weights_of_one(
    plain: Path, corpus_folder: Path, tmp_path: Path, batch: str
) -> None:
    words = (*SHORT, "--batch-size", batch)
    assert run([*command(corpus_folder, plain, tmp_path / "one", *words), "-q"]) == 0
    two = Started(command(corpus_folder, plain, tmp_path / "two", *words), 2, tmp_path / "said")
    assert two.codes() == [0, 0], two.printed(0)
    assert largest_difference(plain, tmp_path / "one") > 1e-3
    assert largest_difference(tmp_path / "one", tmp_path / "two") < 1e-6
    one, other = (json.loads((tmp_path / name / "training.json").read_text()) for name in ("one", "two"))
    assert [entry["loss"] for entry in other["history"]] == pytest.approx([entry["loss"] for entry in one["history"]])
    assert other["processes"] == 2
    assert {path.name for path in (tmp_path / "one").iterdir()} == {path.name for path in (tmp_path / "two").iterdir()}
    assert "step 6: ANLS" in two.printed(0)
    assert two.printed(1) == ""


def test_torchrun_starts_it(commands: CommandServer, plain: Path, corpus_folder: Path, tmp_path: Path) -> None:
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    words = command(corpus_folder, plain, tmp_path / "out", "--steps", "2", "--batch-size", "3", "--json")
    done = subprocess.run(
        [*torchrun, "--no-python", str(commands.program), *words], check=False, capture_output=True, text=True,
        timeout=300, env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2]), "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["processes"] == 2
    assert done.stderr.count("training: 2 of 2") == 1


@pytest.fixture(scope="module")
def uninterrupted(make_checkpoint: Make, corpus_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What two processes train that are not killed."""
    folder = tmp_path_factory.mktemp("uninterrupted")
    two = Started(command(corpus_folder, make_checkpoint(0), folder / "out", *LONG), 2, folder / "said")
    assert two.codes() == [0, 0]
    return folder / "out"


@pytest.mark.parametrize("victim", [0, 1])
def test_a_killed_process_ends_all_and_the_same_command_goes_on(
    make_checkpoint: Make,
    corpus_folder: Path,
    uninterrupted: Path,
    tmp_path: Path,
    victim: int,
    capsys: pytest.CaptureFixture[str],
) -> None:
    again = command(corpus_folder, make_checkpoint(0), tmp_path / "cut", *LONG)
    cut = Started(again, 2, tmp_path / "cut-said")
    cut.kill_once_there(victim, tmp_path / "cut" / STATE_FILE)
    codes = cut.codes()
    assert (codes[victim], codes[1 - victim]) == (-9, 2)
    said = [line for line in cut.printed(0).splitlines() if line.startswith("pfl-audit")]
    killed = "pfl-audit: a process of the training was killed, perhaps for want of memory. Repeat the command: it goes"
    assert said == ([f"{killed} on."] if victim else [])
    assert cut.printed(1) == ""
    assert not (tmp_path / "cut/model.safetensors").exists()
    # Dropout draws other numbers in another number of processes.
    assert run([*again, "-q"]) == 4
    assert "cut holds a run of 2 processes, and this one has 1" in capsys.readouterr().err
    assert Started(again, 2, tmp_path / "again").codes() == [0, 0]
    assert largest_difference(tmp_path / "cut", uninterrupted) == 0


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (AuditError("page 7 cannot be read", "Leave it out"), "pfl-audit: page 7 cannot be read. Leave it out."),
        (KeyError("a private value"), "pfl-audit: internal error in process 1: KeyError."),
        (torch.OutOfMemoryError("full"), "pfl-audit: process 1 is out of memory. Lower --batch-size"),
    ],
)
def test_an_error_in_one_process_ends_all_with_its_line(
    plain: Path, corpus_folder: Path, tmp_path: Path, error: Exception, line: str
) -> None:
    inner = QuestionExamples.part_loss
    calls: list[int] = []

    def fails(self: QuestionExamples, rows: list[int], part: list[int]) -> torch.Tensor:
        calls.append(len(rows))
        if len(calls) == 3:
            raise error
        return inner(self, rows, part)

    def prepare(rank: int) -> None:
        if rank == 1:
            QuestionExamples.part_loss = fails  # type: ignore[method-assign, assignment]

    two = Started(command(corpus_folder, plain, tmp_path / "out", *SHORT), 2, tmp_path / "said", prepare)
    assert two.codes() == [2, 2]
    said = [text for text in two.printed(0).splitlines() if text.startswith("pfl-audit")]
    assert len(said) == 1
    assert said[0].startswith(line)
    assert "private" not in two.printed(0)
    assert two.printed(1) == ""


def test_a_folder_that_cannot_be_used_is_said_once(plain: Path, corpus_folder: Path, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out/other").write_text("not ours")
    two = Started(command(corpus_folder, plain, tmp_path / "out", *SHORT), 2, tmp_path / "said")
    assert two.codes() == [4, 4]
    assert two.printed(0).count("out holds files that this command did not make") == 1
    assert two.printed(1) == ""
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["other"]


def test_central_dp_has_the_same_weights_and_guarantee(
    make_checkpoint: Make, corpus_folder: Path, tmp_path: Path
) -> None:
    words = (
        "--mode", "central-dp", "--rounds", "2", "--local-steps", "2", "--batch-size", "2", "--sigma", "0.8",
        "--provider-rate", "0.6", "--public-providers", "12", "--noise-seed", "3", "--lora", "2", "--lora-parts", "up",
        "--pretrain", "tm", "--pretrain-rounds", "1",
    )  # fmt: skip
    for name, start in (("one", None), ("two", 2)):
        arguments = command(corpus_folder, make_checkpoint(0), tmp_path / name, *words)
        arguments += ["--ledger", str(tmp_path / f"{name}.json")]
        if start is None:
            assert run([*arguments, "-q"]) == 0
        else:
            two = Started(arguments, start, tmp_path / "said")
            assert two.codes() == [0, 0], two.printed(0)
            assert two.printed(1) == ""
    assert largest_difference(tmp_path / "one", tmp_path / "two") == 0
    assert largest_difference(make_checkpoint(0), tmp_path / "two") > 1e-3
    one, other = (json.loads((tmp_path / name / "training.json").read_text()) for name in ("one", "two"))
    assert one["privacy"] == other["privacy"]
    assert len(json.loads((tmp_path / "two.json").read_text())["runs"]) == 1
