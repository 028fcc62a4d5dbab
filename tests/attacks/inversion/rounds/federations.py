"""Small federations with kept messages, and audits of them."""

import json
import shutil
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file

from pfl_audit.cli.main import run
from pfl_audit.training.federated.kept import MODEL, kept_path

FIXTURES = Path(__file__).parents[4] / "fixtures"
Federation = tuple[Path, Path]
"""Corpus and checkpoint."""


def training(corpus: Path, start: str, out: Path) -> list[str]:
    """Options of a federation whose four clients take a step on one question in every round."""
    step = ["--clients-per-round", "4", "--local-steps", "1", "--batch-size", "1", "--validate-every", "9"]
    given = ["--mode", "fl", "--data", str(corpus), "--from", str(FIXTURES / start), "--out", str(out), "-q"]
    return [*given, *step, "--keep-updates"]


def copy_of(out: Path, folder: Path) -> Path:
    shutil.copytree(out, folder / "ckpt")
    shutil.copytree(kept_path(out), kept_path(folder / "ckpt"))
    return folder / "ckpt"


def messages(out: Path) -> list[Path]:
    return [path for path in sorted(kept_path(out).rglob("*.safetensors")) if path.name != MODEL]


def put_noise(path: Path, size: float) -> None:
    """In the place of a message."""
    generator = torch.Generator().manual_seed(0)
    made = {name: size * torch.randn(part.shape, generator=generator) for name, part in load_file(path).items()}
    save_file(made, path)


def audit(federation: Federation, folder: Path, *options: str) -> tuple[int, dict[str, Any]]:
    corpus, out = federation
    code = run(["invert", "--round", str(out), "--data", str(corpus), "--out", str(folder), "-q", *options])
    found = json.loads((folder / "results.json").read_text()) if (folder / "results.json").is_file() else {}
    return code, found


def check(results: dict[str, Any]) -> dict[str, Any]:
    (found,) = results["checks"]
    assert found["id"] == "inversion.messages"
    return dict(found)
