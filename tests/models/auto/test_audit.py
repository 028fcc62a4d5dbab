"""Audits end to end, and ``inspect``, of models of transformers' auto classes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from pfl_audit.cli.main import run
from tests.models.auto.test_open import save_adapter
from tests.models.auto.zoo import FAMILIES

Checkpoint = Callable[[str], Path]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "prompt"), [("t5", "Read {words} and say: {question}"), ("qwen2_vl", None)])
def test_membership_and_memorization(
    name: str, prompt: str | None, checkpoint: Checkpoint, corpus_folder: Path, tmp_path: Path, here: None
) -> None:
    common = [
        "--model",
        str(checkpoint(name)),
        "--red",
        str(corpus_folder),
        "--store",
        str(tmp_path / "s.sqlite"),
        "-q",
    ]
    common += ["--prompt", prompt] if prompt else []
    assert run(["mia", *common, "--out", str(tmp_path / "mia"), "--check", "membership.azk"]) in (0, 1, 3)
    assert run(["memorize", *common, "--out", str(tmp_path / "memorize")]) in (0, 1, 3)
    for command, check in (("mia", "membership.azk"), ("memorize", "memorization.provider_name")):
        results = json.loads((tmp_path / command / "results.json").read_text())
        checks = {one["id"]: one for one in results["checks"]}
        assert checks[check]["status"] == "ran"
        assert checks[check]["metrics"]
        assert results["target"]["family"] == {"t5": "text-to-text", "qwen2_vl": "vision-language"}[name]
        assert any((prompt or "{question}") in note for note in results["target"]["notes"])


@pytest.mark.slow
def test_another_prompt_belongs_to_another_run(
    checkpoint: Checkpoint, corpus_folder: Path, tmp_path: Path, here: None, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["mia", "--model", str(checkpoint("gpt2")), "--red", str(corpus_folder), "--out", str(tmp_path / "run")]
    command += ["--check", "membership.azk", "-q"]
    assert run(command) in (0, 1, 3)
    assert run([*command, "--prompt", "{question}"]) == 4
    assert "holds an audit with other settings" in capsys.readouterr().err
    assert run([*command, "--prompt", "no field", "--out", str(tmp_path / "other")]) == 4
    assert "the prompt template lacks {question}" in capsys.readouterr().err


def test_inspect_says_how_each_is_asked(checkpoint: Checkpoint, capsys: pytest.CaptureFixture[str]) -> None:
    for name in FAMILIES:
        assert run(["inspect", str(checkpoint(name)), "--json"]) == 0
        facts = json.loads(capsys.readouterr().out)
        assert "{question}" in facts["asked"]
        assert facts["checks"]["membership.azk"]


def test_inspect_asks_one_question(
    checkpoint: Checkpoint, corpus_folder: Path, tmp_path: Path, here: None, capsys: pytest.CaptureFixture[str]
) -> None:
    save_adapter(checkpoint("t5"), tmp_path / "lora")
    command = ["inspect", str(tmp_path / "lora"), "--red", str(corpus_folder), "--prompt", "Q {question}", "--json"]
    assert run(command) == 0
    masked = json.loads(capsys.readouterr().out)
    assert run([*command, "--reveal"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert masked["loss"] == shown["loss"]
    assert "LoRA adapter, merged into its base; tokenizer of the base" in masked["notes"]
    assert "prompt: Q {question}" in masked["notes"]
    assert "•" in masked["accepted"]
    assert "•" not in shown["accepted"]
    assert shown["accepted"] not in json.dumps(masked)


def test_inspect_of_an_adapter_of_another_family(
    make_checkpoint: Callable[[int], Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "adapter_config.json").write_text(json.dumps({"base_model_name_or_path": str(make_checkpoint(0))}))
    assert run(["inspect", str(tmp_path)]) == 2
    assert "is an adapter of a vt5 checkpoint" in capsys.readouterr().err
