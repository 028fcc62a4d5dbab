"""Long commands of the pages on private training, which run as they are printed, on stand-ins of what they name.

``base`` and ``start`` are a tiny VT5 with random weights. Data that a page does not draw is a corpus of small pages. A
SuperLink runs in ``tests/training/federated/flower/test_deployment.py``, ``account`` in ``tests/cli/test_account.py``,
and the training of a fixture when it is built.
"""

from __future__ import annotations

import json
import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from PIL import Image

from pfl_audit.cli.main import run
from pfl_audit.privacy.canary_coins import RECORD
from tests.docs.pages import ROOT, Block, blocks
from tests.docs.test_commands import steps

ELSEWHERE = ("flwr ", "flower-", "pfl-audit account ", "printf ")
"""Beginnings of commands that other tests run."""
LONG = [
    block
    for name in ("training", "federation", "accounting", "canaries")
    for block in blocks(ROOT / f"docs/{name}.md")
    if block.long
    and block.is_commands
    and "build/fixtures" not in block.text
    and not all(line.startswith(ELSEWHERE) for line, _ in steps(block))
]
DRAWN = next(block for block in blocks(ROOT / "docs/training.md") if "pfl-audit data make" in block.text)


def draw_corpus(folder: Path, providers: int) -> None:
    """A corpus in the safe format: pages of three clients, each of a provider of its own, on one picture."""
    (folder / "images").mkdir(parents=True)
    Image.new("L", (96, 128), 255).save(folder / "images/page.png")
    rows = [
        {
            "id": f"{number:024x}_1", "provider": f"Company {number}", "membership": "member", "client": number % 3,
            "split": "blue_train" if number % 10 else "blue_valid", "words": ["Company", str(number)],
            "boxes": [[0.1, 0.1, 0.4, 0.2], [0.5, 0.1, 0.6, 0.2]], "image": "images/page.png",
            "questions": [{"id": f"q{number}", "question": "Who issued this?", "answers": [f"company {number}"]}],
        }
        for number in range(providers)
    ]  # fmt: skip
    (folder / "corpus.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def revealed() -> str:
    """The commitment that the owner of ``ckpt`` published."""
    return str(json.loads(Path("ckpt", RECORD).read_text())["commitment"])


@pytest.fixture
def place(make_checkpoint: Callable[[int], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("fixtures", "docs"):
        (tmp_path / name).symlink_to(ROOT / name)
    for name in ("base", "start"):
        (tmp_path / name).symlink_to(make_checkpoint(0))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.slow
@pytest.mark.parametrize("block", LONG, ids=lambda block: block.name)
def test_long_commands_run(block: Block, place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    if "--from fixtures" in block.text:
        assert run(shlex.split(DRAWN.text)[1:]) == 0
    elif "--data data/blue" in block.text:
        draw_corpus(place / "data/blue", 30)
    else:
        draw_corpus(place / "data", 1500 if "--minimum-providers" in block.text else 60)
        (place / "heldout").symlink_to(place / "data")
    for line, _ in steps(block):
        if line.startswith(ELSEWHERE):
            continue
        words = shlex.split(line, comments=True)
        if words[0] == "pfl-audit":
            fewer = ["--rounds", "1"] if "--audit-canaries" in words else []  # each trains on 500 pages more
            code = run([*(revealed() if word == "HASH" else word for word in words[1:]), *fewer])
            assert code == 0, capsys.readouterr().err
        else:
            ran = subprocess.run(line, shell=True, capture_output=True, text=True, check=False, timeout=60)
            assert ran.returncode == 0, ran.stderr
