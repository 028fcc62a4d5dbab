"""``inspect`` and ``list``: what a checkpoint is, and what can be asked of a target."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from pfl_audit.cli import options
from pfl_audit.cli.console import make_progress, print_json


def inspect(
    model: Annotated[str, typer.Argument(help="Checkpoint folder, or a hub id with --download.")],
    device: options.Device = "cpu",
    download: options.Download = False,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
    config: options.Config = None,
) -> None:
    """Say what a checkpoint is, how it was opened, and what can be asked of it.

    Example: pfl-audit inspect ckpt
    """
    from pfl_audit.core.attack import Need, Resource, installed_attacks, unmet_needs
    from pfl_audit.core.redaction import visible
    from pfl_audit.models.open import open_any, shares_gradients
    from pfl_audit.models.protocol import Capability

    make_progress(quiet=quiet)  # opening shows none of ours, but the hub may
    opened = open_any(model, device=device, download=download)
    forms = Capability.FORM_LOSS in opened.capabilities
    documents = {Resource.FORMS, Resource.PUBLIC} if forms else {Resource.PRETRAINED, Resource.BLUE}
    if not forms and shares_gradients(Path(opened.describe()["path"])):
        documents.add(Resource.GRADIENT)
    have: frozenset[Need] = frozenset(opened.capabilities) | documents
    checks = {
        spec.id: unmet_needs(spec, have) is None for attack in installed_attacks().values() for spec in attack.specs
    }
    facts: dict[str, Any] = {**opened.describe(), "capabilities": sorted(opened.capabilities), "checks": checks}
    if as_json:
        print_json(facts)
        return
    for name in ("family", "path", "parameters", "sha256"):
        typer.echo(f"{name:13}{facts[name]:,}" if name == "parameters" else f"{name:13}{visible(facts[name])}")
    typer.echo(f"{'opened':13}{visible('; '.join(facts['notes']), 1000)}")
    typer.echo(f"{'can be asked':13}{', '.join(facts['capabilities'])}")
    for name, possible in checks.items():
        typer.echo(f"{'check' if possible else 'no check':13}{name}")


def list_checks(as_json: options.AsJson = False) -> None:
    """Name the attacks, their checks, and what each needs of a target.

    Example: pfl-audit list
    """
    from pfl_audit.core.attack import installed_attacks

    rows = [
        {"id": spec.id, "title": spec.title, "needs": sorted(str(need) for need in spec.needs)}
        for attack in installed_attacks().values()
        for spec in attack.specs
    ]
    if as_json:
        print_json(rows)
        return
    width = max(len(str(row["id"])) for row in rows) + 2
    for row in rows:
        typer.echo(f"{row['id']:{width}}{row['title']}")
        typer.echo(f"{'':{width}}needs: {', '.join(row['needs'])}")
