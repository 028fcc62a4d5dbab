"""Commands that a launcher starts as several processes: which run, and what the others say."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from pfl_audit.cli.main import run
from pfl_audit.errors import UsageError
from pfl_audit.launcher import Launch, launch
from pfl_audit.training.torch_group import own_device

TWO = {"LOCAL_RANK": "0", "RANK": "0", "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"}
REMEDY = "Leave out torchrun or accelerate: --workers and --cluster divide an audit, Flower a federation"


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, Launch()),
        ({"WORLD_SIZE": "8", "RANK": "3"}, Launch()),  # of a pod or batch system, without a launcher
        ({"LOCAL_RANK": "0", "WORLD_SIZE": "1"}, Launch()),
        ({"LOCAL_RANK": "3", "WORLD_SIZE": "4"}, Launch(3, 4)),
    ],
)
def test_a_launcher_is_recognised(environment: dict[str, str], expected: Launch) -> None:
    assert launch(environment) == expected
    assert expected.leads == (expected.rank == 0)


@pytest.mark.parametrize(("rank", "size"), [("4", "4"), ("-1", "4"), ("0", "two"), ("", "4"), ("0", "9" * 5000)])
def test_variables_of_no_launcher_are_refused(rank: str, size: str) -> None:
    with pytest.raises(UsageError):
        launch({"LOCAL_RANK": rank, "WORLD_SIZE": size})


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (["mia", "--model", "m", "--red", "r"], "mia"),
        (["account", "--sampling-rate", "0.2", "--steps", "1", "--delta", "1e-5", "--sigma", "1"], "account"),
        (["train", "--mode", "fl", "--data", "d", "--out", "o"], "train --mode fl"),
        (["train", "--mode", "fl-dp", "--data", "d", "--out", "o"], "train --mode fl-dp"),
        (["train", "--task", "mlm", "--data", "d", "--out", "o"], "train --task"),
        (["train", "--dry-run", "--data", "d", "--out", "o"], "train --dry-run"),
        (["train", "--engine", "flower", "--mode", "fl", "--app", "a", "--out", "o"], "train --engine"),
    ],
)
def test_what_is_one_process_is_refused_in_one_line(
    words: list[str], what: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in TWO.items():
        monkeypatch.setenv(name, value)
    assert run(words) == 4
    assert capsys.readouterr().err == f"pfl-audit: {what} is one process, and 2 were started. {REMEDY}.\n"


@pytest.mark.parametrize(
    ("variable", "value", "line"),
    [
        ("LOCAL_WORLD_SIZE", "1", "2 processes were started on several machines, 1 of them here"),
        ("ACCELERATE_MIXED_PRECISION", "bf16", "mixed precision bf16, and train computes in float32 alone"),
    ],
)
def test_what_a_launcher_is_asked_for_and_training_does_not_do(
    variable: str, value: str, line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    for name, text in {**TWO, variable: value}.items():
        monkeypatch.setenv(name, text)
    assert run(["train", "--data", str(tmp_path), "--out", str(tmp_path / "out")]) == 4
    assert line in capsys.readouterr().err


def test_processes_without_an_address_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, text in TWO.items():
        monkeypatch.setenv(name, text)
    monkeypatch.delenv("MASTER_PORT", raising=False)
    monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")
    assert run(["train", "--data", str(tmp_path), "--out", str(tmp_path / "out")]) == 4
    assert "MASTER_PORT is not set for 2 processes" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "gpus", "expected"),
    [("cpu", 4, "cpu"), ("auto", 0, "cpu"), ("auto", 4, "cuda:2"), ("cuda", 4, "cuda:2"), ("cuda", 0, "cuda")],
)
def test_each_process_has_the_gpu_of_its_number(
    name: str, gpus: int, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: gpus > 0)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: gpus)
    assert own_device(name, 2, 4) == expected


@pytest.mark.parametrize(
    ("name", "gpus", "line"),
    [
        ("cuda", 1, "4 processes were started, and 1 GPU is there. Start 1"),
        ("auto", 3, "and 3 GPUs are there. Start 3"),
        ("cuda:1", 4, "cannot share the device 'cuda:1'. Use --device cuda"),
        ("mps", 0, "cannot share the device 'mps'"),
    ],
)
def test_processes_without_a_device_each_are_refused(
    name: str, gpus: int, line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: gpus > 0)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: gpus)
    with pytest.raises(UsageError) as refused:
        own_device(name, 2, 4)
    assert line in str(refused.value)
