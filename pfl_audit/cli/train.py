"""``train``: make a model to audit."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from pfl_audit.cli import options
from pfl_audit.cli.console import make_progress, note, print_json
from pfl_audit.cli.federation import write_federation
from pfl_audit.cli.options import refuse_unused
from pfl_audit.cli.settings_options import keyword, with_parameters
from pfl_audit.cli.train_options import (
    CENTRAL,
    FORMS,
    KEPT,
    LEDGER,
    PRETRAINING,
    PRIVACY,
    ROUNDS,
    SHARED,
    Values,
    draws_clients,
    option_parameters,
    unused_options,
)
from pfl_audit.cli.train_plan import guarantee, show_plan
from pfl_audit.errors import UsageError
from pfl_audit.launcher import launch, require_one_process, require_shared_training
from pfl_audit.training.federated.settings import FederatedSettings, PrivacySettings
from pfl_audit.training.forms.settings import FormTrainSettings
from pfl_audit.training.pretraining import Pretraining
from pfl_audit.training.settings import TrainSettings, flag_of

if TYPE_CHECKING:
    from pfl_audit.training.canaries import CanarySettings
    from pfl_audit.training.start import Settings, TrainRun


def _train(context: typer.Context, **values: Any) -> None:
    """Train a VT5, Donut or LayoutLM on the BLUE part of a corpus, or with --task an encoder on forms.

    Killed, the same command continues. Several GPUs: torchrun -m pfl_audit train (docs/several-gpus.md).

    Example: pfl-audit train --mode fl-dp --from base --data data/blue --out ckpt --epsilon 8 --public-providers 4000
    """
    refuse_unused(context, unused_options(values))
    if values["engine"] == "local" and values["data"] is None:
        raise UsageError("--data is needed", "Give the corpus to train on")
    for option, value in (("task", "qa"), ("engine", "local"), ("dry_run", False)):
        if values[option] != value:
            require_one_process(f"train {flag_of(option)}")
    require_shared_training(values["mode"])
    if values["task"] != "qa":
        _train_forms(values)
        return
    run, settings, privacy = _request(values)
    if values["engine"] == "flower":
        if values["dry_run"]:
            raise UsageError("--dry-run plans what is trained here", "Leave out --engine flower")
        write_federation(
            run, settings, privacy, values["app"], values["data"],
            clients=values["clients"], secure=values["secagg"], quorum=values["quorum"],
        )  # fmt: skip
    elif values["dry_run"]:
        show_plan(run, settings, privacy, as_json=values["as_json"], quiet=values["quiet"])
    else:
        _run(run, settings, privacy, as_json=values["as_json"], quiet=values["quiet"])


def _request(values: Values) -> tuple[TrainRun, Settings, PrivacySettings | None]:
    """What is trained, and how."""
    from pfl_audit.models.device import AUTO, usable_device
    from pfl_audit.training.start import TrainRun

    names = (
        "out",
        "start",
        "size",
        "vocabulary",
        "half",
        "mode",
        "device",
        "lora",
        "providers_share",
        *LEDGER.names,
        *KEPT.names,
    )
    run = TrainRun(
        data=values["data"] or Path(),
        pretraining=Pretraining(**PRETRAINING.given(values)) if values["pretrain"] is not None else None,
        canaries=_canaries(values),
        **{name: values[name] for name in names},
    )
    if run.device == AUTO and launch().size == 1:  # it is written into the configuration of federations
        run = replace(run, device=usable_device(AUTO))
    frozen: dict[str, Any] = {"freeze_visual": not values["train_visual"], "seed": values["seed"]}
    if run.mode == "central":
        return run, TrainSettings(**frozen, **CENTRAL.given(values)), None
    settings = FederatedSettings(**frozen, **SHARED.given(values), **ROUNDS.given(values))
    return run, settings, _privacy(values) if run.mode in ("central-dp", "fl-dp") else None


def _canaries(values: Values) -> CanarySettings | None:
    from pfl_audit.training.canaries import PER_GUESS, CanarySettings

    count = values["audit_canaries"]
    if not count:
        return None
    return CanarySettings(count, values["canary_guesses"] or max(1, count // PER_GUESS), values["canary_nonce"])


def _privacy(values: Values) -> PrivacySettings:
    given = PRIVACY.given(values)
    by_clients = draws_clients(values)
    given["sampling"] = values["sampling"] if "sampling" not in unused_options(values) else "providers"
    given["client_rate"] = values["client_rate"] if by_clients else 1.0
    if by_clients:
        given.setdefault("provider_rate", 1.0)
    if "noise_multiplier" in given:
        given.setdefault("epsilon", None)
    return PrivacySettings(**given)


def _run(run: TrainRun, settings: Settings, privacy: PrivacySettings | None, *, as_json: bool, quiet: bool) -> None:
    from pfl_audit.training.records import public_part
    from pfl_audit.training.run import run_training
    from pfl_audit.training.torch_group import process_group

    with process_group(launch()) as group:
        record = run_training(run, settings, make_progress(quiet=quiet or not group.leads), privacy, group)
    if not group.leads:
        return
    if as_json:
        print_json(public_part(record) if privacy else record)
    elif not quiet:
        last = record["history"][-1] if record["history"] else {}
        scored = f"validation ANLS {last['anls']:.3f}" if "anls" in last else "no validation part to measure on"
        phases = [record[name] for name in ("pretraining",) if name in record] + [record]
        done = " and ".join(f"{one['steps']} steps" if "steps" in one else f"{one['rounds']} rounds" for one in phases)
        note(f"{run.out}: {done}, {scored}")
        if isinstance(claim := record["privacy"], dict):
            note(guarantee(claim))


def _train_forms(values: Values) -> None:
    """Train on forms and print the result.

    Raises:
        AuditError: As run_form_training.
    """
    from pfl_audit.training.forms.run import FormRun, run_form_training

    settings = FormTrainSettings(**FORMS.given(values))
    run = FormRun(values["data"], values["out"], values["start"], values["device"], values["half"])
    record = run_form_training(run, settings, make_progress(quiet=values["quiet"]))
    if values["as_json"]:
        print_json(record)
    elif not values["quiet"]:
        for criterion, chosen in record["chosen"].items():
            figures = f"accuracy {chosen['accuracy']:.3f}, loss {chosen['validation_loss']:.3f}"
            folder = run.out / f"best-{criterion}"
            note(f"{folder}: epoch {chosen['epoch']} of {settings.epochs}, validation {figures}")


train = with_parameters(
    _train,
    option_parameters(
        keyword("seed", options.Seed, 0),
        keyword("device", options.Device, "cpu"),
        keyword("as_json", options.AsJson, False),
        keyword("quiet", options.Quiet, False),
        keyword("config", options.Config, None),
    ),
)
