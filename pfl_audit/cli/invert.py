"""``invert``: what one shared gradient gives away of the page that a client trained on."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from pfl_audit.cli import options
from pfl_audit.errors import UsageError

METHODS = ("text", "analytic", "gi-dqa", "dlg", "idlg", "inverting-gradients", "april", "lbfgs")
"""Each is a check of the attack."""
_DEFAULTS: dict[str, tuple[str, ...]] = {"donut": ("text", "lbfgs")}
_OTHERS = ("analytic",)
_CLIENT = "Client"
_ATTACK = "Attack: docs/inversion.md"
_OCR = "Reading"


def invert(
    model: Annotated[
        Path | None,
        typer.Option("--model", help="Checkpoint: Donut or LayoutLM.", show_default="the embedded Donut"),
    ] = None,
    template: Annotated[
        Path | None,
        typer.Option(
            "--template",
            help="Picture of the empty form, or a folder of FORM/template.png with fields.json.",
            show_default="an embedded form",
        ),
    ] = None,
    fields: Annotated[
        Path | None,
        typer.Option("--fields", help="Its private fields (fields.json).", show_default="beside it, or found"),
    ] = None,
    public: Annotated[
        Path | None,
        typer.Option("--public", help="The form as published, if perturbed.", show_default="the template"),
    ] = None,
    document: Annotated[
        Path | None,
        typer.Option(
            "--document",
            help="A filled page of the template's size.",
            show_default="drawn values",
            rich_help_panel=_CLIENT,
        ),
    ] = None,
    question: Annotated[
        str | None,
        typer.Option(
            "--question", help="Trained on; with --answer.", show_default="about a field", rich_help_panel=_CLIENT
        ),
    ] = None,
    answer: Annotated[
        str | None, typer.Option("--answer", help="Its answer.", show_default=False, rich_help_panel=_CLIENT)
    ] = None,
    gradient: Annotated[
        Path | None,
        typer.Option(
            "--gradient",
            help="A gradient that was captured, by parameter (.safetensors).",
            show_default="computed",
            rich_help_panel=_CLIENT,
        ),
    ] = None,
    batch_size: Annotated[
        int, typer.Option("--batch-size", min=1, max=64, help="Pages of one gradient.", rich_help_panel=_CLIENT)
    ] = 1,
    documents: Annotated[
        int, typer.Option("--documents", min=1, help="Pages to fill, each with a gradient.", rich_help_panel=_CLIENT)
    ] = 1,
    noise: Annotated[
        float,
        typer.Option("--noise", min=0.0, help="Standard deviation of noise on the gradient.", rich_help_panel=_CLIENT),
    ] = 0.0,
    stage: Annotated[
        int,
        typer.Option("--stage", min=0, help="Training steps before the gradient is taken.", rich_help_panel=_CLIENT),
    ] = 0,
    method: Annotated[
        list[str] | None,
        typer.Option(
            "--method",
            help=f"How to attack (repeat): {', '.join(METHODS)}, all.",
            show_default="text and lbfgs for Donut, else analytic",
            rich_help_panel=_ATTACK,
        ),
    ] = None,
    iterations: Annotated[
        int | None,
        typer.Option("--iterations", min=1, help="Of a search, at most.", show_default="800", rich_help_panel=_ATTACK),
    ] = None,
    layers: Annotated[
        Literal["all", "pre-fusion", "post-fusion"],
        typer.Option("--layers", help="Whose gradients are matched.", rich_help_panel=_ATTACK),
    ] = "all",
    prior_txt: Annotated[
        float | None,
        typer.Option(
            "--prior-txt", min=0.0, help="Weight of the text prior.", show_default="0.03", rich_help_panel=_ATTACK
        ),
    ] = None,
    prior_gau: Annotated[
        float | None,
        typer.Option(
            "--prior-gau", min=0.0, help="Weight of the Gaussian prior.", show_default="0.003", rich_help_panel=_ATTACK
        ),
    ] = None,
    prior_tv: Annotated[
        float | None,
        typer.Option(
            "--prior-tv", min=0.0, help="Weight of total variation.", show_default="0.03", rich_help_panel=_ATTACK
        ),
    ] = None,
    scheduler: Annotated[
        Literal["decay", "constant", "delayed"],
        typer.Option("--scheduler", help="When priors count.", rich_help_panel=_ATTACK),
    ] = "decay",
    known: Annotated[
        Literal["recovered", "both", "question", "answer", "none", "characters"],
        typer.Option("--known", help="What the observer has of question and answer.", rich_help_panel=_ATTACK),
    ] = "recovered",
    init: Annotated[
        Literal["template", "noise"] | None,
        typer.Option(
            "--init", help="Where a search begins.", show_default="as the method has it", rich_help_panel=_ATTACK
        ),
    ] = None,
    knowledge: Annotated[
        Literal["published", "template"],
        typer.Option("--knowledge", help="Whether the other methods have the template.", rich_help_panel=_ATTACK),
    ] = "published",
    ocr: Annotated[
        Literal["rapidocr", "tesseract", "trocr"],
        typer.Option("--ocr", help="Who reads what came back.", rich_help_panel=_OCR),
    ] = "rapidocr",
    ocr_weights: Annotated[
        Path | None,
        typer.Option("--ocr-weights", help="Folder of TrOCR's weights.", show_default=False, rich_help_panel=_OCR),
    ] = None,
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
    """Read a client's page, question and answer out of the gradient that it shares in federated learning.

    Without options an embedded form is filled in and trained on by the embedded Donut.

    Example: pfl-audit invert --template form.png --model ckpt --documents 12
    """
    from pfl_audit.cli.audit import command, run_and_show, run_folder, shared_store
    from pfl_audit.core.runner import AuditPlan, GradientPlan

    if ocr_weights is not None:
        from pfl_audit.models.weights import tensor_names

        tensor_names(ocr_weights)  # a folder that cannot be read is an error before the search, not after it
    model = model or options.embedded("donut")
    embedded = template is None
    template = template or options.embedded("templates", "form-01", "template.png")
    given: dict[str, Any] = {
        "iterations": iterations,
        "alpha_txt": prior_txt,
        "alpha_gau": prior_gau,
        "alpha_tv": prior_tv,
        "init": init,
        "ocr_weights": str(ocr_weights) if ocr_weights else None,
    }
    settings = {"layers": layers, "scheduler": scheduler, "known": known, "knowledge": knowledge, "ocr": ocr}
    settings |= {name: value for name, value in given.items() if value is not None}
    plan = AuditPlan(
        title="Gradient inversion",
        out=run_folder(out, "invert"),
        model=str(model),
        gradients=GradientPlan(
            template=template,
            fields=fields,
            document=document,
            question=question,
            answer=answer,
            gradient=gradient,
            batch=batch_size,
            documents=documents,
            noise=noise,
            stage=stage,
            public=public,
            public_form=embedded,
        ),
        checks=checks_of(method, model),
        settings={"inversion": settings},
        store=store or shared_store(out),
        seed=seed,
        device=device,
        fail_on=fail_on,
        reveal=reveal,
        command=command(),
    )
    run_and_show(plan, as_json=as_json, quiet=quiet)


def checks_of(methods: list[str] | None, model: Path) -> tuple[str, ...]:
    """Ids of the checks: those named, or those that suit the model's family."""
    from pfl_audit.models.open import family_of

    for name in methods or ():
        if name not in (*METHODS, "all"):
            raise UsageError(f"there is no method '{name}'", f"Choose among: {', '.join(METHODS)}, all")
    chosen = dict.fromkeys(methods or _DEFAULTS.get(family_of(model).name, _OTHERS))
    return ("inversion",) if "all" in chosen else tuple(f"inversion.{name.replace('-', '_')}" for name in chosen)
