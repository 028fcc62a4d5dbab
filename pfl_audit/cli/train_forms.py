"""``train --task mlm | ee-bio | ee-spade | el``: its options, and the call."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import typer

from pfl_audit.cli.console import make_progress, note, print_json

_PANEL: Final = "Forms: every --task but qa"
_HIGHEST_SEED: Final = 2**32 - 1

Task = Annotated[
    Literal["qa", "mlm", "ee-bio", "ee-spade", "el"],
    typer.Option(
        "--task",
        help="qa answers questions (VT5); the others read forms: mask filling, field extraction by BIO or SPADE, "
        "linking of fields.",
    ),
]
Backbone = Annotated[
    Literal["layoutlm", "bros", "bert"],
    typer.Option("--backbone", help="Encoder; bert reads no boxes.", rich_help_panel=_PANEL),
]
Modality = Annotated[
    Literal["unimodal", "bimodal"],
    typer.Option("--modality", help="bimodal sees the page's image too.", rich_help_panel=_PANEL),
]
Part = Annotated[
    Literal["private", "public"],
    typer.Option("--part", help="Forms to train on: of the model under audit, or public.", rich_help_panel=_PANEL),
]
Epochs = Annotated[int, typer.Option("--epochs", help="Passes over the part.", rich_help_panel=_PANEL)]
MaxTokens = Annotated[int, typer.Option("--max-tokens", help="Tokens of the longest window.", rich_help_panel=_PANEL)]
KeepEvery = Annotated[
    int,
    typer.Option(
        "--keep-every", help="Epochs between checkpoints kept for a sweep; 0 keeps none.", rich_help_panel=_PANEL
    ),
]
SplitSeed = Annotated[
    int,
    typer.Option(
        "--split-seed",
        min=0,
        max=_HIGHEST_SEED,
        help="Seed of the three parts: the same for the public and the private model, and for the attack.",
        rich_help_panel=_PANEL,
    ),
]

_OF_FORMS: Final = ("backbone", "modality", "part", "epochs", "max_tokens", "keep_every", "split_seed")
_OF_QUESTIONS: Final = (
    "mode", "lora", "steps", "train_visual", "validate_every", "save_every", "refuse", "rounds", "clients_per_round",
    "local_epochs", "local_steps", "strategy", "epsilon", "sigma", "delta", "clip", "sampling", "client_rate",
    "provider_rate", "accounting", "denominator", "noise_seed", "engine", "app", "clients", "secagg", "dry_run",
    "providers_share",
)  # fmt: skip


def unused(task: str) -> dict[str, str]:
    """Parameters of ``train`` that nothing looks at with this task, and why."""
    return dict.fromkeys(_OF_FORMS if task == "qa" else _OF_QUESTIONS, f"with --task {task}")


def train_forms(
    given: Mapping[str, Any],
    data: Path,
    out: Path,
    start: Path | None,
    device: str,
    *,
    half: bool,
    as_json: bool,
    quiet: bool,
) -> None:
    """Train on forms and say what came of it.

    Args:
        given: Settings by name; None is the default.
        data: The forms.
        out: Folder of the checkpoints.
        start: Checkpoint to begin with, or None.
        device: torch's name of the device.
        as_json: Print the record instead of a line.
        quiet: Show nothing.

    Raises:
        AuditError: As run_form_training.
    """
    from pfl_audit.training.forms.run import FormRun, run_form_training
    from pfl_audit.training.forms.settings import FormTrainSettings

    settings = FormTrainSettings(**{name: value for name, value in given.items() if value is not None})
    record = run_form_training(FormRun(data, out, start, device, half), settings, make_progress(quiet=quiet))
    if as_json:
        print_json(record)
        return
    if quiet:
        return
    for criterion, chosen in record["chosen"].items():
        figures = f"accuracy {chosen['accuracy']:.3f}, loss {chosen['validation_loss']:.3f}"
        note(f"{out / f'best-{criterion}'}: epoch {chosen['epoch']} of {settings.epochs}, validation {figures}")
