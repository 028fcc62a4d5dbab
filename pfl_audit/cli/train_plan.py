"""What ``train --dry-run`` prints."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from pfl_audit.cli.console import make_progress, print_json

if TYPE_CHECKING:
    from pfl_audit.training.federated.settings import PrivacySettings
    from pfl_audit.training.start import Settings, TrainRun


def show_plan(
    run: TrainRun, settings: Settings, privacy: PrivacySettings | None, *, as_json: bool, quiet: bool
) -> None:
    """Print what a run would do.

    Args:
        privacy: Settings of the private modes, or None.
        as_json: Print JSON instead of lines.
        quiet: Show no progress.
    """
    from pfl_audit.training.dry_run import plan_run

    plan = plan_run(run, settings, make_progress(quiet=quiet), privacy)
    if as_json:
        print_json(plan)
        return
    first = plan.get("pretraining")
    parties = f"{len(plan['clients'])} clients, {plan['rounds']} rounds" if plan["clients"] else "all in one place"
    after = f" after {first['rounds']} of self-pretraining" if first and plan["clients"] else ""
    lines = [f"{plan['mode']}: {parties}{after}"]
    for held in plan["clients"]:
        counted = (f"{count} {name}" for name, count in held.items() if name != "client")
        lines.append(f"  client {held['client']}: {', '.join(counted)}")
    lines.append(f"trained: {plan['trained']['numbers']:,} numbers in {plan['trained']['tensors']} tensors")
    if sent := plan.get("communication"):
        papers = sent["papers_way"]
        lines.append(
            f"messages: {sent['messages']} of {sent['bytes_a_message']:,} bytes, {sent['GB']} GB ({sent['GiB']} GiB); "
            f"as the papers count: {papers['bytes_a_message']:,} bytes, {papers['GB']} GB ({papers['GiB']} GiB)"
        )
    if promise := plan["privacy"]:
        lines.append(guarantee(promise))
        lines.append(
            f"noise multiplier {promise['noise_multiplier']}, clip {promise['clip']:g}, "
            f"sums divided by {promise['denominator']:g}"
        )
        lines += [f"warning: {warning}" for warning in plan["warnings"]]
    phases = {"estimate of self-pretraining": first, "estimate": plan} if first else {"estimate": plan}
    lines += [f"{name}: {_estimate(phase['estimate'])}" for name, phase in phases.items()]
    typer.echo("\n".join(lines))


def _estimate(taken: dict[str, Any]) -> str:
    return (
        f"{taken['optimiser_steps']} steps of {taken['seconds_a_step']} s, "
        f"{taken['seconds'] / 60:.1f} minutes; {taken['peak_memory_bytes'] / 2**30:.1f} GiB of memory"
    )


def guarantee(claim: dict[str, Any]) -> str:
    """One line on a privacy guarantee, from its record in ``training.json``."""
    label = "" if claim["accounting"] == "valid" else " (published accounting: does not hold as stated)"
    together = claim["composed"] or {"runs": 1}
    others = f"; epsilon {together['epsilon']:.3f} for {together['runs']} runs" if together["runs"] > 1 else ""
    return (
        f"({claim['epsilon']:.3f}, {claim['delta']:g})-differential privacy of a {claim['unit']} by "
        f"{claim['accountant']}{label}: {claim['adjacency']}{others}"
    )
