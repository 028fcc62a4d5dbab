"""Self-pretraining: a first phase of a run, on its own pages without questions (federated-docvqa-pilot, 3.3)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Annotated, Any, Final, Literal

from pydantic import Field

from pfl_audit.errors import UsageError
from pfl_audit.models.pretraining_task import Form, Task
from pfl_audit.training.federated.settings import FederatedSettings, PrivacySettings
from pfl_audit.training.settings import TrainSettings, check_settings

FOLDER: Final = "pretraining"
"""Folder in that of a run with the state of the first phase; the name of the phase as well."""


@dataclass(frozen=True)
class Pretraining:
    """Settings of self-pretraining; what is None here, and every other setting, is as in the fine-tuning.

    Sampling, noise multiplier, delta and divisor of a private run are the same in both phases, so that they have one
    guarantee. The clipping norm may be another: epsilon depends on the noise multiplier alone.
    """

    pretrain: Annotated[
        str, Field(description="Self-pretraining on the same pages before: tm, lm, tlm, separated by commas.")
    ]
    pretrain_form: Annotated[
        Literal["paper", "code"], Field(description="Form of its examples: as printed, or as in the authors' code.")
    ] = "paper"
    pretrain_steps: Annotated[int, Field(ge=1, description="Its optimiser steps, mode central.")] = 2000
    pretrain_rounds: Annotated[int, Field(ge=1, description="Its rounds (T).")] = 10
    pretrain_client_fraction: Annotated[
        float | None, Field(gt=0, le=1, description="Its share C of the clients, fl only.")
    ] = None
    pretrain_strategy: Annotated[str | None, Field(description="Its server strategy.")] = None
    pretrain_server_rate: Annotated[
        float | None, Field(gt=0, le=10, description="Its server learning rate of fedadam.")
    ] = None
    pretrain_learning_rate: Annotated[float | None, Field(gt=0, lt=100, description="Its highest learning rate.")] = (
        None
    )
    pretrain_clip: Annotated[
        float | None,
        Field(gt=0, allow_inf_nan=False, description="Its largest L2 norm of a provider's update (C)."),
    ] = None

    def check(self) -> None:
        """Raise UsageError if a setting is out of bounds, or a task unknown."""
        check_settings(self)
        known = set(Task)
        if unknown := [name for name in self._names if name not in known]:
            raise UsageError(
                f"there is no task of self-pretraining '{unknown[0]:.40}'", f"Give some of: {','.join(Task)}"
            )

    @property
    def tasks(self) -> tuple[Task, ...]:
        """The tasks, each once."""
        return tuple(dict.fromkeys(map(Task, self._names)))

    @property
    def form(self) -> Form:
        """Form of the examples."""
        return Form(self.pretrain_form)

    def to_dict(self) -> dict[str, Any]:
        """As JSON."""
        return {**asdict(self), "pretrain": ",".join(self.tasks)}

    def central(self, later: TrainSettings) -> TrainSettings:
        """Settings of the first phase of central training; refusals belong to questions."""
        return replace(later, steps=self.pretrain_steps, refuse=0.0, **self._given("learning_rate"))

    def federated(self, later: FederatedSettings) -> FederatedSettings:
        """Settings of the rounds of the first phase."""
        given = self._given("client_fraction", "strategy", "server_rate", "learning_rate")
        return replace(later, rounds=self.pretrain_rounds, validate_stages=False, **given)

    def private(self, later: PrivacySettings) -> PrivacySettings:
        """Settings of the privacy of the first phase."""
        return replace(later, **self._given("clip"))

    @property
    def _names(self) -> list[str]:
        return [name.strip() for name in self.pretrain.split(",")]

    def _given(self, *names: str) -> dict[str, Any]:
        values: Mapping[str, Any] = {name: getattr(self, f"pretrain_{name}") for name in names}
        return {name: value for name, value in values.items() if value is not None}


def first_phase(identity: Mapping[str, Any]) -> dict[str, Any]:
    """Identity of the first phase of a run: state and noise of one phase are none of the other."""
    return {**identity, "phase": FOLDER}
