"""``train --pretrain``: its options."""

from __future__ import annotations

from dataclasses import fields
from typing import Final

from pfl_audit.cli.train_options import OptionGroup, Values
from pfl_audit.training.pretraining import Pretraining

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


def pretraining(values: Values) -> Pretraining | None:
    """Settings of the phase, or None without ``--pretrain``."""
    return None if values["pretrain"] is None else Pretraining(**PRETRAINING.given(values))


def unused_of_pretraining(values: Values) -> dict[str, str]:
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
