import json
from pathlib import Path

import pytest

from pfl_audit.cli.main import run
from pfl_audit.models.encoders.checkpoint import open_encoder
from pfl_audit.training.loop import STATE_FILE
from tests.training.killed import kill_once_there


def test_command_survives_sigkill_and_makes_two_checkpoints(
    forms_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "ckpt"
    arguments = [
        "train", "--task", "ee-bio", "--data", str(forms_folder), "--out", str(out), "--size", "tiny", "--vocabulary",
        "150", "--batch-size", "1", "--epochs", "6",
    ]  # fmt: skip
    kill_once_there(arguments, out / STATE_FILE)
    capsys.readouterr()
    assert run(arguments) == 0
    told = capsys.readouterr().err
    assert "best-precision: epoch" in told
    assert "best-loss: epoch" in told
    record = json.loads((out / "training.json").read_text())
    assert [look["epoch"] for look in record["history"]] == list(range(1, 7))
    for criterion, chosen in record["chosen"].items():
        assert json.loads((out / f"best-{criterion}/training.json").read_text())["epoch"] == chosen["epoch"]
        assert open_encoder(out / f"best-{criterion}").config.labels == ("answer", "header", "question")
    assert run([*arguments, "--json"]) == 0  # finished: nothing is trained again
    assert json.loads(capsys.readouterr().out) == record
    assert run([*arguments, "--seed", "9"]) == 4


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--task", "mlm", "--mode", "fl"], "--mode means nothing with --task mlm"),
        (["--task", "el", "--rounds", "3"], "--rounds means nothing with --task el"),
        (["--task", "el", "--steps", "3"], "--steps means nothing with --task el"),
        (["--task", "ee-bio", "--epsilon", "8"], "--epsilon means nothing with --task ee-bio"),
        (["--task", "mlm", "--dry-run"], "--dry-run means nothing with --task mlm"),
        (["--task", "mlm", "--from", "x", "--size", "tiny"], "--size means nothing with --from"),
        (["--epochs", "3"], "--epochs means nothing with --task qa"),
        (["--task", "qa", "--backbone", "bros"], "--backbone means nothing with --task qa"),
        (["--task", "mlm", "--labelled-tokens", "fields"], "--labelled-tokens means nothing with --task mlm"),
        (["--split-seed", "1"], "--split-seed means nothing with --task qa"),
        (["--task", "mlm", "--backbone", "t5"], "'t5' is not one of"),
        (["--task", "mlm", "--max-tokens", "9999"], "9999 is not in the range 16<=x<=512"),
        (["--task", "mlm", "--epochs", "0"], "0 is not in the range x>=1"),
    ],
)
def test_options_that_mean_nothing_are_refused(
    words: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["train", "--data", "nowhere", "--out", str(tmp_path / "out"), *words]) == 4
    assert message in " ".join(capsys.readouterr().err.split())
    assert not (tmp_path / "out").exists()


def test_forms_that_are_not_there_are_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["train", "--task", "mlm", "--data", str(tmp_path / "x"), "--out", str(tmp_path / "out")]) == 4
    assert len(capsys.readouterr().err.strip().splitlines()) == 1
    assert run(["train", "--task", "mlm", "--out", str(tmp_path / "out")]) == 4
