"""``demo``: audit the embedded model, from any folder, without anything at hand."""

from __future__ import annotations

from importlib import resources
from pathlib import Path
from typing import Annotated

import typer

from pfl_audit.cli import options

CHECKS = ("memorization.provider_name", "memorization.provider_email", "memorization.unprompted", "membership")


def demo(
    out: Annotated[Path, typer.Option("--out", help="Folder of the run.")] = Path("audit-demo"),
    seed: options.Seed = 0,
    device: options.Device = "cpu",
    reveal: options.Reveal = False,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
    config: options.Config = None,
) -> None:
    """Audit the embedded model: fine-tuned on invoices of companies that do not exist.

    The model leaks, and the report shows how; the exit code is 0 all the same.

    Example: pfl-audit demo --out audit-demo
    """
    from pfl_audit.audit.runner import AuditPlan
    from pfl_audit.cli.audit import run_and_show

    fixtures = Path(str(resources.files("pfl_audit.fixtures")))
    plan = AuditPlan(
        title="Audit of the demo model",
        out=out,
        red=fixtures / "red",
        model=str(fixtures / "vt5-finetuned"),
        pretrained=str(fixtures / "vt5-pretrained"),
        blue=fixtures / "blue-secrets",
        checks=CHECKS,
        seed=seed,
        device=device,
        reveal=reveal,
        command=f"pfl-audit demo --out {out}",
    )
    run_and_show(plan, as_json=as_json, quiet=quiet, gate=False)
