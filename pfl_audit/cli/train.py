"""``train``: make a model to audit."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from pfl_audit.cli import options, train_forms
from pfl_audit.cli.console import make_progress, note, print_json
from pfl_audit.cli.federation import write_federation
from pfl_audit.cli.unused import refuse_unused
from pfl_audit.errors import UsageError

if TYPE_CHECKING:
    from pfl_audit.training.federated.settings import FederatedSettings, PrivacySettings
    from pfl_audit.training.run import TrainRun

_FEDERATED = "Rounds: fl, central-dp, fl-dp"
_PRIVACY = "Privacy: central-dp, fl-dp"
_FLOWER = "Several machines: docs/federation.md"


def train(
    context: typer.Context,
    out: Annotated[Path, typer.Option("--out", help="Folder of the new checkpoint.")],
    data: Annotated[
        Path | None,
        typer.Option(
            "--data",
            help="Corpus whose BLUE training part is trained on; with --engine flower its held-out part is looked at; "
            "forms with every other --task than qa.",
            show_default=False,
        ),
    ] = None,
    task: train_forms.Task = "qa",
    mode: Annotated[
        Literal["central", "fl", "central-dp", "fl-dp"],
        typer.Option("--mode", help="All documents in one place, or federated; with provider-level privacy, or not."),
    ] = "central",
    start: Annotated[
        Path | None, typer.Option("--from", help="Checkpoint to begin with.", show_default="random weights")
    ] = None,
    size: Annotated[
        str, typer.Option("--size", help="Of a model from nothing: small, base; of forms tiny too.")
    ] = "small",
    vocabulary: Annotated[int, typer.Option("--vocabulary", help="Pieces of a tokenizer from nothing.")] = 1000,
    lora: Annotated[int, typer.Option("--lora", min=0, help="Rank of low-rank adapters; 0 trains whole tensors.")] = 0,
    steps: Annotated[int, typer.Option("--steps", help="Optimiser steps of the mode central.")] = 2000,
    batch_size: Annotated[
        int | None,
        typer.Option("--batch-size", help="Queries, or windows of forms, a step.", show_default="32; of forms 8"),
    ] = None,
    learning_rate: Annotated[
        float | None,
        typer.Option("--learning-rate", help="Highest learning rate.", show_default="2e-4; on forms 5e-4"),
    ] = None,
    optimizer: Annotated[
        Literal["adamw", "adafactor"], typer.Option("--optimizer", help="adafactor learns faster from nothing.")
    ] = "adamw",
    train_visual: Annotated[
        bool, typer.Option("--train-visual", help="Train the DiT as well; the reference keeps it frozen.")
    ] = False,
    validate_every: Annotated[
        int | None,
        typer.Option("--validate-every", help="Steps or rounds between validations.", show_default="500 or 5"),
    ] = None,
    save_every: Annotated[
        int, typer.Option("--save-every", help="Steps between saved states; rounds are saved by themselves.")
    ] = 100,
    refuse: Annotated[
        float,
        typer.Option(
            "--refuse",
            help="Share of each step's queries that are trained on a scrubbed page with a refusal, mode central.",
        ),
    ] = 0.0,
    rounds: Annotated[int, typer.Option("--rounds", help="Rounds (T).", rich_help_panel=_FEDERATED)] = 10,
    clients_per_round: Annotated[
        int, typer.Option("--clients-per-round", help="Clients a round, fl only (K).", rich_help_panel=_FEDERATED)
    ] = 2,
    local_epochs: Annotated[
        int, typer.Option("--local-epochs", help="Passes over the queries in a round.", rich_help_panel=_FEDERATED)
    ] = 1,
    local_steps: Annotated[
        int | None,
        typer.Option(
            "--local-steps", help="Most steps in a round.", show_default="no limit", rich_help_panel=_FEDERATED
        ),
    ] = None,
    strategy: Annotated[
        str, typer.Option("--strategy", help="How the server takes an update.", rich_help_panel=_FEDERATED)
    ] = "fedavg",
    epsilon: Annotated[
        float | None,
        typer.Option("--epsilon", help="Promise to reach.", show_default="8", rich_help_panel=_PRIVACY),
    ] = None,
    sigma: Annotated[
        float | None,
        typer.Option(
            "--sigma", help="Noise multiplier, instead of --epsilon.", show_default=False, rich_help_panel=_PRIVACY
        ),
    ] = None,
    delta: Annotated[float, typer.Option("--delta", help="Of the promise.", rich_help_panel=_PRIVACY)] = 1e-5,
    clip: Annotated[
        float, typer.Option("--clip", help="Largest norm of a provider's update (C).", rich_help_panel=_PRIVACY)
    ] = 1.0,
    sampling: Annotated[
        Literal["providers", "clients"],
        typer.Option(
            "--sampling",
            help="providers: every client takes part, providers are drawn; clients: clients, then providers.",
            rich_help_panel=_PRIVACY,
        ),
    ] = "providers",
    client_rate: Annotated[
        float,
        typer.Option(
            "--client-rate", help="Probability of a client, with --sampling clients.", rich_help_panel=_PRIVACY
        ),
    ] = 0.2,
    provider_rate: Annotated[
        float | None,
        typer.Option(
            "--provider-rate",
            help="Probability of a provider.",
            show_default="0.2; 1 with --sampling clients",
            rich_help_panel=_PRIVACY,
        ),
    ] = None,
    accounting: Annotated[
        Literal["valid", "published"],
        typer.Option(
            "--accounting", help="published repeats the papers' figure, which does not hold.", rich_help_panel=_PRIVACY
        ),
    ] = "valid",
    denominator: Annotated[
        float | None,
        typer.Option(
            "--denominator",
            help="What a round's sum is divided by.",
            show_default="providers to expect",
            rich_help_panel=_PRIVACY,
        ),
    ] = None,
    noise_seed: Annotated[
        int | None,
        typer.Option(
            "--noise-seed",
            help="Repeatable noise: private only while the seed is secret.",
            show_default="a secret key",
            rich_help_panel=_PRIVACY,
        ),
    ] = None,
    engine: Annotated[
        Literal["local", "flower"],
        typer.Option(
            "--engine", help="local trains here; flower writes the app of a federation.", rich_help_panel=_FLOWER
        ),
    ] = "local",
    app: Annotated[
        Path | None,
        typer.Option("--app", help="Folder of the app, for flwr run.", show_default=False, rich_help_panel=_FLOWER),
    ] = None,
    clients: Annotated[int, typer.Option("--clients", help="How many there are.", rich_help_panel=_FLOWER)] = 2,
    secagg: Annotated[
        bool,
        typer.Option(
            "--secagg", help="Sum updates by SecAgg+: the server sees no single one.", rich_help_panel=_FLOWER
        ),
    ] = False,
    backbone: train_forms.Backbone = "layoutlm",
    modality: train_forms.Modality = "unimodal",
    part: train_forms.Part = "private",
    epochs: train_forms.Epochs = 60,
    max_tokens: train_forms.MaxTokens = 512,
    keep_every: train_forms.KeepEvery = 0,
    split_seed: train_forms.SplitSeed = 0,
    half: Annotated[bool, typer.Option("--half", help="Save the weights as float16.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print plan, messages, noise, time and memory; train nothing.")
    ] = False,
    providers_share: Annotated[
        float,
        typer.Option(
            "--providers-share",
            help="Train on about this share of the providers, drawn by --seed, as for audit --reference.",
        ),
    ] = 1.0,
    seed: options.Seed = 0,
    device: options.Device = "cpu",
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
    config: options.Config = None,
) -> None:
    """Train a VT5 on the BLUE part of a corpus, or with --task an encoder on forms. Killed, the same command goes on.

    Example: pfl-audit train --mode fl-dp --from base --data data/blue --out ckpt --epsilon 8
    """
    from pfl_audit.training.federated.settings import FederatedSettings, PrivacySettings
    from pfl_audit.training.run import TrainRun, run_training
    from pfl_audit.training.settings import TrainSettings

    by_clients = mode == "fl-dp" and sampling == "clients"
    unused = _unused(mode, engine, by_clients=by_clients, has_start=start is not None)
    refuse_unused(context, unused | train_forms.unused(task))
    if engine == "local" and data is None:
        raise UsageError("--data is needed", "Give the corpus to train on")
    if task != "qa":
        given = {
            "task": task,
            "backbone": backbone,
            "modality": modality,
            "part": part,
            "epochs": epochs,
            "batch_size": batch_size,
            "learning_rate": learning_rate,
            "optimizer": optimizer,
            "seed": seed,
            "split_seed": split_seed,
            "max_tokens": max_tokens,
            "size": size,
            "vocabulary": vocabulary,
            "keep_every": keep_every,
        }
        train_forms.train_forms(given, data or Path(), out, start, device, half=half, as_json=as_json, quiet=quiet)
        return
    batch_size = 32 if batch_size is None else batch_size
    learning_rate = 2e-4 if learning_rate is None else learning_rate
    run = TrainRun(
        data=data or Path(),
        out=out,
        start=start,
        size=size,
        vocabulary=vocabulary,
        half=half,
        mode=mode,
        device=device,
        lora=lora,
        providers_share=providers_share,
    )
    settings: TrainSettings | FederatedSettings
    if mode == "central":
        settings = TrainSettings(
            steps=steps,
            batch_size=batch_size,
            learning_rate=learning_rate,
            optimizer=optimizer,
            freeze_visual=not train_visual,
            seed=seed,
            validate_every=500 if validate_every is None else validate_every,
            save_every=save_every,
            refuse=refuse,
        )
    else:
        settings = FederatedSettings(
            rounds=rounds,
            clients_per_round=clients_per_round,
            local_epochs=local_epochs,
            local_steps=local_steps,
            batch_size=batch_size,
            learning_rate=learning_rate,
            optimizer=optimizer,
            strategy=strategy,
            freeze_visual=not train_visual,
            seed=seed,
            validate_every=5 if validate_every is None else validate_every,
        )
    privacy = None
    if mode in ("central-dp", "fl-dp"):
        privacy = PrivacySettings(
            sampling=sampling if mode == "fl-dp" else "providers",
            client_rate=client_rate if by_clients else 1.0,
            provider_rate=provider_rate if provider_rate is not None else 1.0 if by_clients else 0.2,
            clip=clip,
            epsilon=8.0 if epsilon is None and sigma is None else epsilon,
            noise_multiplier=sigma,
            delta=delta,
            accounting=accounting,
            denominator=denominator,
            noise_seed=noise_seed,
        )
    if engine == "flower":
        if dry_run:
            raise UsageError("--dry-run plans what is trained here", "Leave out --engine flower")
        write_federation(run, settings, privacy, app, data, clients=clients, secure=secagg)
        return
    if dry_run:
        _show_plan(run, settings, privacy, as_json=as_json, quiet=quiet)
        return
    record = run_training(run, settings, make_progress(quiet=quiet), privacy)
    if as_json:
        print_json(record)
    elif not quiet:
        last = record["history"][-1] if record["history"] else {}
        scored = f"validation ANLS {last['anls']:.3f}" if "anls" in last else "no validation part to measure on"
        done = f"{record['steps']} steps" if "steps" in record else f"{record['rounds']} rounds"
        note(f"{out}: {done}, {scored}")
        if isinstance(promise := record["privacy"], dict):
            note(_promise(promise))


def _unused(mode: str, engine: str, *, by_clients: bool, has_start: bool) -> dict[str, str]:
    """Parameters that nothing looks at, and why."""
    here = f"with --mode {mode}"
    found: dict[str, str] = {}
    if mode == "central":
        found |= dict.fromkeys(("rounds", "local_epochs", "local_steps", "strategy"), here)
    else:
        found |= dict.fromkeys(("steps", "save_every"), here)
        found["refuse"] = f"{here}: only the mode central trains refusals"
    if mode != "fl":
        found["clients_per_round"] = here
    if mode not in ("central-dp", "fl-dp"):
        private = ("epsilon", "sigma", "delta", "clip", "provider_rate", "accounting", "denominator", "noise_seed")
        found |= dict.fromkeys(private, f"{here}: it trains without privacy")
    if mode != "fl-dp":
        found["sampling"] = here
    if not by_clients:
        found["client_rate"] = "without --sampling clients"
    if has_start:
        found |= dict.fromkeys(("size", "vocabulary"), "with --from")
    if engine != "flower":
        found |= dict.fromkeys(("app", "clients", "secagg"), "without --engine flower")
    else:
        found["providers_share"] = "with --engine flower: each client decides what it holds"
    return found


def _show_plan(run: TrainRun, settings: Any, privacy: PrivacySettings | None, *, as_json: bool, quiet: bool) -> None:
    """Print what the run would do."""
    from pfl_audit.training.run import plan_run

    plan = plan_run(run, settings, make_progress(quiet=quiet), privacy)
    if as_json:
        print_json(plan)
        return
    estimate = plan["estimate"]
    parties = f"{len(plan['clients'])} clients, {plan['rounds']} rounds" if plan["clients"] else "all in one place"
    lines = [f"{plan['mode']}: {parties}"]
    lines += [
        f"  client {held['client']}: {held['providers']} providers, {held['queries']} queries"
        for held in plan["clients"]
    ]
    lines.append(f"trained: {plan['trained']['numbers']:,} numbers in {plan['trained']['tensors']} tensors")
    if sent := plan.get("communication"):
        papers = sent["papers_way"]
        lines.append(
            f"messages: {sent['messages']} of {sent['bytes_a_message']:,} bytes, {sent['GB']} GB ({sent['GiB']} GiB); "
            f"as the papers count: {papers['bytes_a_message']:,} bytes, {papers['GB']} GB ({papers['GiB']} GiB)"
        )
    if promise := plan["privacy"]:
        lines.append(_promise(promise))
        lines.append(
            f"noise multiplier {promise['noise_multiplier']}, clip {promise['clip']:g}, "
            f"sums divided by {promise['denominator']:g}"
        )
        lines += [f"warning: {warning}" for warning in plan["warnings"]]
    lines.append(
        f"estimate: {estimate['optimiser_steps']} steps of {estimate['seconds_a_step']} s, "
        f"{estimate['seconds'] / 60:.1f} minutes; {estimate['peak_memory_bytes'] / 2**30:.1f} GiB of memory"
    )
    typer.echo("\n".join(lines))


def _promise(claim: dict[str, Any]) -> str:
    label = "" if claim["accounting"] == "valid" else " (published accounting: does not hold as stated)"
    return (
        f"({claim['epsilon']:.3f}, {claim['delta']:g})-differential privacy of a {claim['unit']} by "
        f"{claim['accountant']}{label}: {claim['adjacency']}"
    )
