"""``train``: make a model to audit."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from pfl_audit.cli import options
from pfl_audit.cli.console import make_progress, note, print_json

Mode = Literal["central"]


def train(
    data: Annotated[Path, typer.Option("--data", help="Corpus whose BLUE training part is trained on.")],
    out: Annotated[Path, typer.Option("--out", help="Folder of the new checkpoint.")],
    mode: Annotated[
        Mode, typer.Option("--mode", help="How to train: central, all documents in one place.")
    ] = "central",
    start: Annotated[
        Path | None, typer.Option("--from", help="Checkpoint to begin with.", show_default="random weights")
    ] = None,
    size: Annotated[str, typer.Option("--size", help="Size of a model from nothing: small or base.")] = "small",
    vocabulary: Annotated[int, typer.Option("--vocabulary", help="Pieces of a tokenizer from nothing.")] = 1000,
    steps: Annotated[int, typer.Option("--steps", help="Optimiser steps.")] = 2000,
    batch_size: Annotated[int, typer.Option("--batch-size", help="Queries a step.")] = 32,
    learning_rate: Annotated[float, typer.Option("--learning-rate", help="Highest learning rate.")] = 2e-4,
    optimizer: Annotated[
        Literal["adamw", "adafactor"], typer.Option("--optimizer", help="adafactor learns faster from nothing.")
    ] = "adamw",
    train_visual: Annotated[
        bool, typer.Option("--train-visual", help="Train the DiT as well; the reference keeps it frozen.")
    ] = False,
    validate_every: Annotated[int, typer.Option("--validate-every", help="Steps between validations.")] = 500,
    save_every: Annotated[int, typer.Option("--save-every", help="Steps between saved states.")] = 100,
    half: Annotated[bool, typer.Option("--half", help="Save the weights as float16.")] = False,
    seed: options.Seed = 0,
    device: options.Device = "cpu",
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
    config: options.Config = None,
) -> None:
    """Train a VT5 on the BLUE part of a corpus. Killed at any time, the same command goes on.

    Example: pfl-audit train --mode central --from base --data data/blue --out ckpt --steps 2000
    """
    from pfl_audit.training.run import TrainRun, run_training
    from pfl_audit.training.settings import TrainSettings

    settings = TrainSettings(
        steps=steps,
        batch_size=batch_size,
        learning_rate=learning_rate,
        optimizer=optimizer,
        freeze_visual=not train_visual,
        seed=seed,
        validate_every=validate_every,
        save_every=save_every,
    )
    run = TrainRun(
        data=data, out=out, start=start, size=size, vocabulary=vocabulary, half=half, mode=mode, device=device
    )
    record = run_training(run, settings, make_progress(quiet=quiet))
    if as_json:
        print_json(record)
    elif not quiet:
        last = record["history"][-1] if record["history"] else {}
        scored = f"validation ANLS {last['anls']:.3f}" if last else "no validation part to measure on"
        note(f"{out}: {record['steps']} steps, {scored}")
