"""``train``: make a model to audit."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from pydantic import Field

from pfl_audit.cli import options
from pfl_audit.cli.console import make_progress, note, print_json
from pfl_audit.cli.federation import write_federation
from pfl_audit.cli.launched import require_one_process, require_shared_training
from pfl_audit.cli.options import refuse_unused
from pfl_audit.cli.train_forms import FORMS, FORMS_ALONE, train_forms
from pfl_audit.cli.train_options import OptionGroup, Values, make_command
from pfl_audit.cli.train_plan import guarantee, show_plan
from pfl_audit.cli.train_pretraining import PRETRAINING, pretraining, unused_of_pretraining
from pfl_audit.errors import UsageError
from pfl_audit.launcher import launch
from pfl_audit.training.federated.settings import FederatedSettings, Mode, PrivacySettings
from pfl_audit.training.settings import TrainSettings, flag_of

if TYPE_CHECKING:
    from pfl_audit.training.canaries import CanarySettings
    from pfl_audit.training.start import Settings, TrainRun

_FLOWER = "Several machines: docs/federation.md"


@dataclass(frozen=True)
class Choice:
    """Options of the command that belong to no setting of a training."""

    out: Annotated[Path, Field(description="Folder of the new checkpoint.")]
    data: Annotated[
        Path | None,
        Field(
            description="Corpus whose BLUE training part is trained on; with --engine flower its held-out part is "
            "validated on; forms with every other --task than qa."
        ),
    ] = None
    task: Annotated[
        Literal["qa", "mlm", "ee-bio", "ee-spade", "el"],
        Field(
            description="qa answers questions; the others read forms: mask filling, field extraction by BIO or SPADE, "
            "linking of fields."
        ),
    ] = "qa"
    mode: Annotated[
        Mode, Field(description="All documents in one place, or federated; with provider-level privacy, or not.")
    ] = "central"
    start: Annotated[Path | None, Field(description="Checkpoint to begin with.")] = None
    size: Annotated[str, Field(description="Size of a VT5 from nothing: small, base; of forms tiny too.")] = "small"
    vocabulary: Annotated[int, Field(ge=1, le=1_000_000, description="Pieces of a tokenizer from nothing.")] = 1000
    lora: Annotated[int, Field(ge=0, le=4096, description="Rank of low-rank adapters; 0 trains whole tensors.")] = 0
    half: Annotated[bool, Field(description="Save the weights as float16.")] = False
    dry_run: Annotated[bool, Field(description="Print plan, messages, noise, time and memory; train nothing.")] = False
    providers_share: Annotated[
        float,
        Field(description="Train on about this share of the providers, drawn by --seed, as for audit --reference."),
    ] = 1.0
    train_visual: Annotated[
        bool, Field(description="Train the visual encoder of VT5 or Donut as well; by default it is frozen.")
    ] = False
    keep_updates: Annotated[
        bool,
        Field(description="Keep every message as the server sees it beside the checkpoint, for invert --round."),
    ] = False
    engine: Annotated[
        Literal["local", "flower"], Field(description="local trains here; flower writes the app of a federation.")
    ] = "local"
    app: Annotated[Path | None, Field(description="Folder of the app, for flwr run.")] = None
    clients: Annotated[int, Field(description="Number of clients.")] = 2
    secagg: Annotated[bool, Field(description="Sum updates by SecAgg+: the server sees no single one.")] = False
    quorum: Annotated[int, Field(ge=0, description="Clients that are enough for a round; 0 needs all of it.")] = 0
    ledger: Annotated[
        Path | None, Field(description="Budget ledger of the data: every private run over them is reserved in it.")
    ] = None
    budget_cap: Annotated[
        float | None,
        Field(description="Largest epsilon of a provider in all runs; kept in the ledger. A run beyond it is refused."),
    ] = None
    audit_canaries: Annotated[
        int,
        Field(
            ge=0,
            description="Draw this many canary companies, each trained on by a fair coin; verify guesses the coins.",
        ),
    ] = 0
    canary_guesses: Annotated[int | None, Field(ge=1, description="Guesses of the coins, fixed beforehand.")] = None
    canary_nonce: Annotated[str, Field(description="Text of whoever will verify, to show that the coins are new.")] = ""


_RUN = ("out", "data", "task", "mode", "start", "size", "vocabulary", "lora")
_ADAPTERS = ("lora_parts", "lora_dropout")
_AFTER = ("half", "dry_run", "providers_share", "train_visual")
_LATER = {"batch_size": "32; of forms 8", "learning_rate": "2e-4; on forms 5e-4", "validate_every": "500 or 5"}
CENTRAL = OptionGroup(
    TrainSettings,
    ("steps", "batch_size", "learning_rate", "optimizer", "validate_every", "save_every", "refuse", *_ADAPTERS),
    defaults=_LATER,
)
SHARED = OptionGroup(
    FederatedSettings, ("batch_size", "learning_rate", "optimizer", "validate_every", *_ADAPTERS), defaults=_LATER
)
ROUNDS = OptionGroup(
    FederatedSettings,
    (
        "rounds",
        "clients_per_round",
        "client_fraction",
        "client_order",
        "local_epochs",
        "local_steps",
        "strategy",
        "server_rate",
        "weighting",
        "proximal",
        "client_memory",
        "codec",
        "freeze_embeddings",
        "validate_stages",
    ),
    "Rounds: fl, central-dp, fl-dp",
    defaults={"local_steps": "no limit", "client_fraction": "--clients-per-round", "client_order": "drawn"},
)
PRIVACY = OptionGroup(
    PrivacySettings,
    (
        "epsilon", "noise_multiplier", "delta", "clip", "sampling", "client_rate", "provider_rate",
        "providers_per_round", "minimum_providers", "accounting",
        "public_providers", "denominator", "noise_seed",
    ),
    "Privacy: central-dp, fl-dp",
    {"noise_multiplier": "--sigma"},
    {
        "epsilon": "8",
        "provider_rate": "0.2; 1 with --sampling clients",
        "providers_per_round": "none",
        "minimum_providers": "none",
        "denominator": "rate times --public-providers",
        "noise_seed": "a secret key",
    },
)  # fmt: skip
KEPT = OptionGroup(Choice, ("keep_updates",), ROUNDS.panel)
_FL = ("clients_per_round", "client_fraction", "client_order", "validate_stages", "weighting")
"""Options of the mode fl; --sampling fixed-size has the first two as well."""
LEDGER = OptionGroup(
    Choice, ("ledger", "budget_cap"), PRIVACY.panel, defaults={"ledger": "beside --data", "budget_cap": "the ledger's"}
)
CANARIES = OptionGroup(
    Choice,
    ("audit_canaries", "canary_guesses", "canary_nonce"),
    "Document canaries: docs/canaries.md",
    defaults={"canary_guesses": "one per 5 canaries"},
)
FLOWER = OptionGroup(Choice, ("engine", "app", "clients", "secagg", "quorum"), _FLOWER)


def _train(context: typer.Context, values: Values) -> None:
    """Train a VT5, Donut or LayoutLM on the BLUE part of a corpus, or with --task an encoder on forms.

    Killed, the same command continues. Several GPUs: torchrun -m pfl_audit train (docs/several-gpus.md).

    Example: pfl-audit train --mode fl-dp --from base --data data/blue --out ckpt --epsilon 8 --public-providers 4000
    """
    refuse_unused(context, _unused(values))
    if values["engine"] == "local" and values["data"] is None:
        raise UsageError("--data is needed", "Give the corpus to train on")
    for option, value in (("task", "qa"), ("engine", "local"), ("dry_run", False)):
        if values[option] != value:
            require_one_process(f"train {flag_of(option)}")
    require_shared_training(values["mode"])
    if values["task"] != "qa":
        train_forms(values)
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
        pretraining=pretraining(values),
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
    by_clients = _by_clients(values)
    given["sampling"] = values["sampling"] if values["mode"] == "fl-dp" else "providers"
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


def _by_clients(values: Values) -> bool:
    return bool(values["mode"] == "fl-dp" and values["sampling"] == "clients")


def _in_groups(values: Values) -> bool:
    return bool(values["mode"] == "fl-dp" and values["sampling"] == "fixed-size")


def _unused(values: Values) -> dict[str, str]:
    """Options without effect, and why."""
    mode, here = values["mode"], f"with --mode {values['mode']}"
    found = unused_of_pretraining(values)
    if mode == "central":
        found |= dict.fromkeys({*ROUNDS.names, *KEPT.names} - set(_FL), here)
    else:
        found |= dict.fromkeys(("steps", "save_every"), here)
        found["refuse"] = f"{here}: only the mode central trains refusals"
    if mode != "fl":
        found |= dict.fromkeys(_FL[2:] if _in_groups(values) else _FL, here)
        if mode == "fl-dp":
            found["weighting"] = f"{here}: weights by data would disclose the numbers of queries"
    if _in_groups(values):
        fixed = "with --sampling fixed-size"
        found |= {"provider_rate": fixed, "public_providers": f"{fixed}: sums are divided by the number of draws"}
        found["denominator"] = found["public_providers"]
    else:
        found |= dict.fromkeys(("providers_per_round", "minimum_providers"), "without --sampling fixed-size")
    if values["client_fraction"] is not None:
        found.setdefault("clients_per_round", "with --client-fraction")
    if mode != "fl-dp":
        found["client_memory"] = here
    if mode == "central-dp":
        found |= dict.fromkeys(("codec", *KEPT.names), f"{here}: no message is sent")
    if values["strategy"] in ("fedavg", "fedavgm"):
        found["server_rate"] = f"with --strategy {values['strategy']}"
    if mode not in ("central-dp", "fl-dp"):
        private = {*PRIVACY.names, *LEDGER.names} - {"sampling", "client_rate"}
        found |= dict.fromkeys(private, f"{here}: it trains without privacy")
    if mode != "fl-dp":
        found["sampling"] = here
    if not _by_clients(values):
        found["client_rate"] = "without --sampling clients"
    if values["start"] is not None:
        found |= dict.fromkeys(("size", "vocabulary"), "with --from")
    if values["engine"] != "flower":
        found |= dict.fromkeys(("app", "clients", "secagg", "quorum"), "without --engine flower")
    else:
        found["validate_stages"] = "with --engine flower: a server sees no model before its upload"
        found["providers_share"] = "with --engine flower: each client decides what it holds"
        found |= dict.fromkeys(LEDGER.names, "with --engine flower: each client keeps its own ledger")
    if not values["audit_canaries"]:
        found |= dict.fromkeys(CANARIES.names[1:], "without --audit-canaries")
    if values["task"] == "qa":
        return found | dict.fromkeys(FORMS_ALONE, "with --task qa")
    here = f"with --task {values['task']}"
    if values["task"] not in ("ee-spade", "el"):
        found["labelled_tokens"] = here
    found |= {"mode": f"{here}: forms belong to no client and no provider, so they are trained centrally"}
    groups = (CENTRAL, ROUNDS, KEPT, PRETRAINING, PRIVACY, LEDGER, CANARIES, FLOWER)
    questions = {*(name for group in groups for name in group.names), "lora", *_AFTER} - {"half"}
    return found | dict.fromkeys(questions - set(FORMS.names), here)


train = make_command(
    _train,
    (
        OptionGroup(Choice, _RUN, flags={"start": "--from"}, defaults={"start": "random weights"}),
        CENTRAL,
        OptionGroup(Choice, _AFTER),
        ROUNDS,
        KEPT,
        PRETRAINING,
        PRIVACY,
        LEDGER,
        CANARIES,
        FLOWER,
        FORMS,
    ),
    {
        "seed": (options.Seed, 0),
        "device": (options.Device, "cpu"),
        "as_json": (options.AsJson, False),
        "quiet": (options.Quiet, False),
        "config": (options.Config, None),
    },
)
