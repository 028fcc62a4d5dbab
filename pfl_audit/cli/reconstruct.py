"""``reconstruct``: put scrubbed fields back, and see what of it came from the training forms."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from pfl_audit.cli import options
from pfl_audit.errors import UsageError

_ATTACK = "Attack: docs/reconstruction.md"
_ABLATION = "Ablations"


def reconstruct(
    model: Annotated[
        Path | None,
        typer.Option(
            "--model", help="Checkpoint under audit: LayoutLM, BROS or BERT.", show_default="the embedded model"
        ),
    ] = None,
    public: Annotated[
        Path | None,
        typer.Option(
            "--public",
            help="Masked language model of public forms with the same vocabulary; another one is another attacker.",
            show_default="the embedded model",
        ),
    ] = None,
    forms: Annotated[
        Path | None,
        typer.Option(
            "--forms", help="Forms: forms.jsonl, FUNSD, SROIE or fcc-adbuy.", show_default="the embedded forms"
        ),
    ] = None,
    fields: Annotated[
        int | None,
        typer.Option("--fields", min=1, help="Most fields to attack.", show_default="all", rich_help_panel=_ATTACK),
    ] = None,
    label: Annotated[
        list[str] | None,
        typer.Option(
            "--label",
            help="Attack fields of this label (repeat).",
            show_default="answers, or all labels",
            rich_help_panel=_ATTACK,
        ),
    ] = None,
    attempts: Annotated[
        int, typer.Option("--attempts", min=1, max=64, help="Attempts a field (n_a).", rich_help_panel=_ATTACK)
    ] = 8,
    candidates: Annotated[
        int, typer.Option("--candidates", min=1, help="Tokens tried a step (N_c).", rich_help_panel=_ATTACK)
    ] = 128,
    nucleus: Annotated[
        float, typer.Option("--nucleus", help="Probability that sampling keeps (p).", rich_help_panel=_ATTACK)
    ] = 0.1,
    weight: Annotated[
        float, typer.Option("--weight", help="Of the target in the mean.", rich_help_panel=_ATTACK)
    ] = 0.4,
    mean: Annotated[
        Literal["geometric", "arithmetic"], typer.Option("--mean", help="Of the likelihoods.", rich_help_panel=_ATTACK)
    ] = "geometric",
    ranking: Annotated[
        Literal[
            "target perplexity",
            "raw perplexity",
            "perplexity ratio",
            "raw and ratio",
            "max token likelihood gap",
            "max token likelihood ratio",
        ],
        typer.Option("--ranking", help="Membership metric that the finding goes by.", rich_help_panel=_ATTACK),
    ] = "target perplexity",
    control: Annotated[
        bool,
        typer.Option("--control/--no-control", help="Attack the validation forms too.", rich_help_panel=_ATTACK),
    ] = True,
    split_seed: Annotated[
        int, typer.Option("--split-seed", min=0, help="As in training, where forms name no part.")
    ] = 0,
    visual_noise: Annotated[
        bool,
        typer.Option("--visual-noise", help="Replace the pages' pictures by noise.", rich_help_panel=_ABLATION),
    ] = False,
    epochs: Annotated[
        Path | None,
        typer.Option(
            "--epochs",
            help="Attack every epoch-NNN checkpoint in this folder as well.",
            show_default=False,
            rich_help_panel=_ABLATION,
        ),
    ] = None,
    precision: Annotated[
        Literal["float32", "bfloat16"],
        typer.Option("--precision", help="bfloat16 only where the first fields come out the same."),
    ] = "float32",
    out: options.Out = None,
    store: options.Store = None,
    seed: options.Seed = 0,
    device: options.Device = "cpu",
    fail_on: options.Gate = "leak",
    reveal: options.Reveal = False,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
    config: options.Config = None,
) -> None:
    """Put scrubbed fields of the training forms back with the model's help, beside what public knowledge gives.

    Without options the embedded model is attacked.

    Example: pfl-audit reconstruct --model ckpt/best-precision --public public/best-loss --forms data/forms
    """
    from pfl_audit.cli.audit import command, run_and_show, run_folder, shared_store
    from pfl_audit.core.runner import AuditPlan, FormPlan

    model, public, forms = _subject(model, public, forms)
    settings: dict[str, Any] = {
        "fields": fields,
        "labels": tuple(label or ()),
        "attempts": attempts,
        "candidates": candidates,
        "nucleus": nucleus,
        "weight": weight,
        "mean": mean,
        "ranking": ranking,
        "control": control,
    }
    plan = AuditPlan(
        title="Reconstruction of scrubbed fields",
        out=run_folder(out, "reconstruct"),
        model=str(model),
        forms=FormPlan(
            path=forms,
            public=str(public),
            split_seed=split_seed,
            visual_noise=seed if visual_noise else None,
            precision=precision,
            epochs=epochs,
        ),
        checks=("reconstruction",),
        settings={"reconstruction": settings},
        store=store or shared_store(out),
        seed=seed,
        device=device,
        fail_on=fail_on,
        reveal=reveal,
        command=command(),
    )
    run_and_show(plan, as_json=as_json, quiet=quiet)


def _subject(model: Path | None, public: Path | None, forms: Path | None) -> tuple[Path, Path, Path]:
    """The three that belong together: all given, or all embedded."""
    if model is not None and public is not None and forms is not None:
        return model, public, forms
    if (model, public, forms) == (None, None, None):
        return options.embedded("layoutlm-private"), options.embedded("layoutlm-public"), options.embedded("forms")
    missing = [flag for flag, value in (("--model", model), ("--public", public), ("--forms", forms)) if value is None]
    raise UsageError(
        f"{' and '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing",
        "Give --model, --public and --forms, or none of them",
    )
