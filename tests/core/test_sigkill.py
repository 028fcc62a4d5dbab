"""SIGKILL in the middle of an audit, and the same command again."""

import json
import os
import signal
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.command_server import CommandServer

Make = Callable[[int], Path]
_TIMES = ("started", "seconds", "resumed", "command")


def test_interrupt_is_130_and_keeps_what_is_done(
    commands: CommandServer, make_checkpoint: Make, corpus_folder: Path, tmp_path: Path
) -> None:
    process = commands.start(
        "mia",
        "--model",
        make_checkpoint(0),
        "--red",
        corpus_folder,
        "--seeds",
        50,  # minutes of attacks after the answers: a busy machine must not let it end before the signal
        "--out",
        tmp_path / "run",
    )
    deadline = time.monotonic() + 120
    while not answered(tmp_path / "run/responses.sqlite") and time.monotonic() < deadline:
        time.sleep(0.002)
    os.kill(process, signal.SIGINT)
    assert commands.wait() == 130
    assert answered(tmp_path / "run/responses.sqlite")
    assert json.loads((tmp_path / "run/run.json").read_text())["status"] == "cancelled"


def answered(store: Path) -> int:
    if not store.is_file():
        return 0
    try:
        with sqlite3.connect(f"file:{store}?mode=ro", uri=True) as database:
            return int(database.execute("SELECT count(*) FROM responses").fetchone()[0])
    except sqlite3.Error:
        return 0


def without_times(run: Path) -> dict[str, Any]:
    results: dict[str, Any] = json.loads((run / "results.json").read_text())
    for name in _TIMES:
        results["provenance"].pop(name)
    for data in results["datasets"]:
        data.pop("sha256")  # keyed by the run
    return results


@pytest.mark.sampled(1)
@pytest.mark.parametrize("workers", [1, 2])
def test_mia_goes_on_and_ends_with_the_same_results(
    commands: CommandServer, make_checkpoint: Make, corpus_folder: Path, tmp_path: Path, workers: int
) -> None:
    def arguments(out: Path, workers: int = 1) -> list[object]:
        return [
            "mia", "--model", make_checkpoint(0), "--pretrained", make_checkpoint(1), "--red", corpus_folder,
            "--s", 0, "--seeds", 1, "--out", out, "--workers", workers,
        ]  # fmt: skip

    whole, cut = tmp_path / "whole", tmp_path / "cut"
    commands.run(*arguments(whole))
    process = commands.start(*arguments(cut, workers))
    deadline = time.monotonic() + 120
    while answered(cut / "responses.sqlite") < 20 and time.monotonic() < deadline:
        time.sleep(0.002)
    os.kill(process, signal.SIGKILL)
    assert commands.wait() == -signal.SIGKILL
    done = answered(cut / "responses.sqlite")
    assert 20 <= done < answered(whole / "responses.sqlite")
    assert not (cut / "results.json").exists()
    assert json.loads((cut / "run.json").read_text())["status"] == "started"

    commands.run(*arguments(cut))
    run = json.loads((cut / "run.json").read_text())
    assert run["status"] == "success"
    assert run["queries_asked"] == answered(whole / "responses.sqlite") - done
    assert json.loads((cut / "results.json").read_text())["provenance"]["resumed"]
    assert without_times(cut) == without_times(whole)
