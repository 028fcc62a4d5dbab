"""Options of ``train``, made from the fields of settings classes, and which of them have no effect."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from pydantic import Field

from pfl_audit.cli.settings_options import option_parameter
from pfl_audit.training.federated.settings import FederatedSettings, Mode, PrivacySettings
from pfl_audit.training.forms.settings import FormTrainSettings
from pfl_audit.training.pretraining import Pretraining
from pfl_audit.training.settings import TrainSettings, flag_of, settings_fields

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Values = Mapping[str, Any]
"""Values of a command's parameters by name; those of options that were not given are the defaults."""


@dataclass(frozen=True)
class OptionGroup:
    """Options for fields of a settings class.

    Attributes:
        settings: The settings class, a dataclass with pydantic's Field in its annotations.
        names: Fields to offer, in order.
        panel: Title of the group in help, or None for the first one.
        flags: Field to its flags, separated by spaces, where they are not made from the name.
        defaults: Field to the text that help shows in place of its default; the option is then None if not given.
    """

    settings: type[DataclassInstance]
    names: tuple[str, ...]
    panel: str | None = None
    flags: Mapping[str, str] = field(default_factory=dict)
    defaults: Mapping[str, str] = field(default_factory=dict)

    def parameters(self) -> Iterator[inspect.Parameter]:
        """One keyword parameter for each field, annotated for typer."""
        known, defaults = settings_fields(self.settings), {one.name: one.default for one in fields(self.settings)}
        for name in self.names:
            given = None if name in self.defaults else defaults[name]
            shown: str | bool = self.defaults.get(name) or not any(given is none for none in (None, False, MISSING))
            default = inspect.Parameter.empty if given is MISSING else given
            flags = self.flags.get(name, flag_of(name)).split()
            yield option_parameter(name, known[name], flags, default, shown, self.panel)

    def given(self, values: Values) -> dict[str, Any]:
        """The values of these fields, without those that are None."""
        return {name: values[name] for name in self.names if values[name] is not None}


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
        Mode, Field(description="All documents in one place, or federated; with differential privacy, or not.")
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
        Field(description="Largest epsilon of a unit in all runs; kept in the ledger. A run beyond it is refused."),
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
        "unit", "epsilon", "noise_multiplier", "delta", "clip", "sampling", "client_rate", "provider_rate",
        "providers_per_round", "minimum_providers", "separation", "bands", "accounting",
        "public_providers", "denominator", "noise", "noise_seed",
    ),
    "Privacy: central-dp, fl-dp",
    {
        "noise_multiplier": "--sigma",
        "provider_rate": "--provider-rate --unit-rate",
        "public_providers": "--public-providers --public-units",
    },
    {
        "epsilon": "8",
        "provider_rate": "0.2; 1 with --sampling clients",
        "providers_per_round": "none",
        "minimum_providers": "none",
        "separation": "none",
        "bands": "--separation",
        "denominator": "rate times --public-providers",
        "noise_seed": "a secret key",
    },
)  # fmt: skip
KEPT = OptionGroup(Choice, ("keep_updates",), ROUNDS.panel)
_LOCAL = ("local_epochs", "local_steps", "strategy", "server_rate", "proximal", "client_memory", "pretrain_strategy")
"""Options of local training and of the server's step, which gradients of documents or examples do without."""
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
FLOWER = OptionGroup(Choice, ("engine", "app", "clients", "secagg", "quorum"), "Several machines: docs/federation.md")
_ROUNDS: Final = ("pretrain_rounds", "pretrain_client_fraction", "pretrain_strategy", "pretrain_server_rate")
PRETRAINING: Final = OptionGroup(
    Pretraining,
    tuple(field.name for field in fields(Pretraining)),
    "Self-pretraining of a VT5: a phase before",
    defaults={
        "pretrain": "none",
        "pretrain_client_fraction": "as after it",
        "pretrain_strategy": "--strategy",
        "pretrain_server_rate": "--server-rate",
        "pretrain_learning_rate": "--learning-rate",
        "pretrain_clip": "--clip",
    },
)
FORMS_ALONE: Final = (
    "backbone", "modality", "part", "epochs", "max_tokens", "keep_every", "split_seed", "labelled_tokens",
)  # fmt: skip
"""Settings of forms that are no settings of questions."""
FORMS: Final = OptionGroup(
    FormTrainSettings,
    (*FORMS_ALONE, "task", "batch_size", "learning_rate", "optimizer", "seed", "size", "vocabulary"),
    "Forms: every --task but qa",
)


def option_parameters(*more: inspect.Parameter) -> list[inspect.Parameter]:
    """Parameters of all options in the order of help; of fields with the same name the first counts.

    Args:
        more: Parameters that replace those of their names, or follow.
    """
    found: dict[str, inspect.Parameter] = {}
    for group in (
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
    ):
        for parameter in group.parameters():
            found.setdefault(parameter.name, parameter)
    return list((found | {parameter.name: parameter for parameter in more}).values())


def draws_clients(values: Values) -> bool:
    """Whether clients are drawn, and their providers after them."""
    return bool(values["mode"] == "fl-dp" and values["sampling"] == "clients")


def _in_groups(values: Values) -> bool:
    return bool(values["mode"] == "fl-dp" and values["sampling"] == "fixed-size")


def unused_options(values: Values) -> dict[str, str]:
    """Options without effect, and why."""
    mode, here = values["mode"], f"with --mode {values['mode']}"
    found = _unused_of_pretraining(values)
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
    if values["sampling"] == "schedule":
        found["provider_rate"] = "with --sampling schedule"
    else:
        found |= dict.fromkeys(("separation", "bands"), "without --sampling schedule")
    if values["unit"] != "provider":
        gradient = f"with --unit {values['unit']}: it gives one gradient, and --optimizer steps along their mean"
        found |= dict.fromkeys(_LOCAL, gradient)
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
    if mode != "fl-dp" and (mode, values["sampling"]) != ("central-dp", "schedule"):
        found["sampling"] = here
    if not draws_clients(values):
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


def _unused_of_pretraining(values: Values) -> dict[str, str]:
    """Options of the phase without effect, and why."""
    mode, here = values["mode"], f"with --mode {values['mode']}"
    if values["pretrain"] is None:
        return dict.fromkeys(PRETRAINING.names, "without --pretrain")
    found = dict.fromkeys(_ROUNDS, here) if mode == "central" else {"pretrain_steps": here}
    if mode in ("central-dp", "fl-dp"):
        found["pretrain_client_fraction"] = f"{here}: both phases have one sampling and one guarantee"
    else:
        found["pretrain_clip"] = f"{here}: it trains without privacy"
    if (strategy := values["pretrain_strategy"] or values["strategy"]) in ("fedavg", "fedavgm"):
        found.setdefault("pretrain_server_rate", f"with server strategy {strategy}")
    return found
