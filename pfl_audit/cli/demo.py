"""``demo``: audit the embedded models, from any folder, without anything at hand."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pfl_audit.cli import options

CHECKS = (
    "memorization.generalisation",
    "memorization.provider_name",
    "memorization.provider_email",
    "memorization.unprompted",
    "membership",
)
CONTROL = ("memorization.generalisation", "memorization.provider_name", "membership")
"""What the models are asked that are there for comparison."""


def demo(
    out: Annotated[Path, typer.Option("--out", help="Folder of the run.")] = Path("audit-demo"),
    seed: options.Seed = 0,
    device: options.Device = "cpu",
    reveal: options.Reveal = False,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
    config: options.Config = None,
) -> None:
    """Audit the embedded models: fine-tuned on invoices of companies that do not exist, with privacy and without.

    The fine-tuned model leaks, and its report shows how; the pre-trained and the private one stand beside it in
    comparison.html. A model that was fine-tuned on other companies is the control. Then fields that were scrubbed from
    forms are put back with the help of a model that was trained on them, and a filled form is read out of the one
    gradient that a client shares. The exit code is 0 all the same.

    Example: pfl-audit demo --out audit-demo
    """
    from pfl_audit.cli.audit_command import run_and_show
    from pfl_audit.cli.console import note, print_json
    from pfl_audit.cli.summary import show_comparison
    from pfl_audit.core.comparison import compare
    from pfl_audit.core.plan import AuditPlan
    from pfl_audit.core.renderers import render_comparison

    fixtures = options.embedded()

    def plan(title: str, model: str, folder: Path, checks: tuple[str, ...], *, pretrained: bool = True) -> AuditPlan:
        return AuditPlan(
            title=title,
            out=folder,
            model=str(fixtures / model),
            inputs={
                "questions": {
                    "red": fixtures / "red",
                    "pretrained": str(fixtures / "vt5-pretrained") if pretrained else None,
                    "control": str(fixtures / "vt5-out"),
                    "blue": fixtures / "blue-secrets",
                    "classes_random": True,  # one recipe draws all providers, and the first are the members
                }
            },
            checks=checks,
            store=out / "responses.sqlite",
            seed=seed,
            device=device,
            reveal=reveal,
            command=f"pfl-audit demo --out {out}",
        )

    plans = (
        plan("Fine-tuned demo model, made so that attacks can succeed", "vt5-finetuned", out, CHECKS),
        plan("Pre-trained demo model", "vt5-pretrained", out / "pre-trained", CONTROL, pretrained=False),
        plan(
            "Private demo model, which learnt nothing and proves nothing", "vt5-private", out / "with-privacy", CONTROL
        ),
    )
    found = [
        (run_and_show(one, as_json=False, quiet=quiet, gate=False, show=one is plans[0] and not as_json), one.out)
        for one in plans
    ]
    comparison = compare([found[1], found[0], found[2]])
    pages = render_comparison(comparison, out / "comparison.html")
    forms = AuditPlan(
        title="Reconstruction of scrubbed fields",
        out=out / "reconstruction",
        model=str(fixtures / "layoutlm-private"),
        inputs={"forms": {"forms": fixtures / "forms", "public": str(fixtures / "layoutlm-public")}},
        checks=("reconstruction",),
        store=out / "responses.sqlite",
        seed=seed,
        device=device,
        reveal=reveal,
        command=f"pfl-audit demo --out {out}",
    )
    gradients = AuditPlan(
        title="Gradient inversion",
        out=out / "inversion",
        model=str(fixtures / "donut"),
        inputs={"gradients": {"template": fixtures / "templates" / "form-01" / "template.png", "public_form": True}},
        checks=("inversion.text", "inversion.lbfgs"),
        store=out / "responses.sqlite",
        seed=seed,
        device=device,
        reveal=reveal,
        command=f"pfl-audit demo --out {out}",
    )
    if as_json:
        note(f"side by side: {', '.join(map(str, pages))}")
    else:
        show_comparison(comparison, pages)
    for one in (forms, gradients):
        run_and_show(one, as_json=False, quiet=quiet, gate=False, show=not as_json)
    if as_json:  # once everything is done, so that a failure is the only document
        print_json(found[0][0].model_dump(mode="json"))
