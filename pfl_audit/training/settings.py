"""Settings of a training: each field is written once, with its description, bounds and default."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_type_hints

from pydantic import Field, TypeAdapter, ValidationError
from pydantic.fields import FieldInfo

from pfl_audit.errors import UsageError

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Seed = Annotated[
    int, Field(ge=0, lt=2**32, description="Seed of weights, order, dropout, masks, adapters, and who takes part.")
]
BatchSize = Annotated[int, Field(ge=1, description="Queries, or windows of forms, a step.")]
LearningRate = Annotated[float, Field(gt=0, lt=100, description="Highest learning rate.")]
OptimizerName = Annotated[
    str, Field(description="adamw, adam, sgd, momentum, shampoo, or adafactor, which learns faster from nothing.")
]
WeightDecay = Annotated[
    float, Field(ge=0, allow_inf_nan=False, description="Weight decay; adafactor and shampoo have none.")
]
LoraParts = Annotated[
    Literal["all", "adapters", "up"],
    Field(
        description="What --lora trains: all (adapters, and the embeddings of boxes and pages), adapters alone, or up: "
        "the half of each adapter that begins at zero."
    ),
]
LoraDropout = Annotated[float, Field(ge=0, lt=1, description="Dropout on the inputs of adapters.")]
FreezeVisual = Annotated[bool, Field(description="Freeze the visual encoder, and encode each page once.")]
ValidateEvery = Annotated[int, Field(ge=1, description="Steps or rounds between validations.")]
ValidationQueries = Annotated[int, Field(ge=1, description="Largest number of validation queries.")]
ClipNorm = Annotated[float, Field(gt=0, allow_inf_nan=False, description="Largest L2 norm of a step's gradient.")]


_FLAGS = {"noise_multiplier": "--sigma"}


def settings_fields(kind: type[DataclassInstance]) -> dict[str, FieldInfo]:
    """The fields of a settings class by name, in order."""
    hints = get_type_hints(kind, include_extras=True)
    return {name: FieldInfo.from_annotation(hints[name]) for name in (field.name for field in fields(kind))}


def flag_of(name: str) -> str:
    """The flag of a field on the command line."""
    return f"--{name.replace('_', '-')}"


def without_defaults(settings: DataclassInstance, names: tuple[str, ...]) -> dict[str, Any]:
    """Settings as JSON, without those of these names that have their default."""
    defaults = {field.name: field.default for field in fields(settings)}
    return {name: value for name, value in asdict(settings).items() if name not in names or value != defaults[name]}


def check_settings(settings: DataclassInstance) -> None:
    """Compare all settings with the types and bounds of their fields.

    Raises:
        UsageError: One is out of bounds; it is named.
    """
    try:
        TypeAdapter(type(settings)).validate_python(asdict(settings))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        name = str(first["loc"][0])
        must = first["msg"].removeprefix("Input should ").replace("be greater than or equal to", "be at least")
        given = getattr(settings, name)
        raise UsageError(
            f"{name} must {must}, and is {given!s:.40}", f"Correct {_FLAGS.get(name, flag_of(name))}"
        ) from error


@dataclass(frozen=True)
class TrainSettings:
    """Settings of central training on questions. The learning rate is warmed up, then falls linearly to a tenth."""

    steps: Annotated[int, Field(ge=1, description="Optimiser steps of the mode central.")] = 2000
    batch_size: BatchSize = 32
    learning_rate: LearningRate = 2e-4
    optimizer: OptimizerName = "adamw"
    warmup: Annotated[int, Field(ge=0, description="Steps of the warm-up.")] = 100
    weight_decay: WeightDecay = 0.01
    clip_norm: ClipNorm = 1.0
    freeze_visual: FreezeVisual = True
    lora_parts: LoraParts = "all"
    lora_dropout: LoraDropout = 0.1
    seed: Seed = 0
    validate_every: ValidateEvery = 500
    save_every: Annotated[
        int, Field(ge=1, description="Steps between saved states; every round is saved by itself.")
    ] = 100
    validation_queries: ValidationQueries = 256
    refuse: Annotated[
        float,
        Field(
            ge=0,
            le=1,
            description="Share of a step's queries that are trained on a scrubbed page with a refusal, mode central.",
        ),
    ] = 0.0

    def check(self) -> None:
        """Raise UsageError if a setting is out of bounds, or an optimiser is unknown."""
        from pfl_audit.training.optimizers import OPTIMIZERS

        check_settings(self)
        OPTIMIZERS.named(self.optimizer)

    def to_dict(self) -> dict[str, Any]:
        """As JSON; settings that earlier versions lacked are left out at their defaults, to recognise their runs."""
        return without_defaults(self, ("refuse", "lora_parts", "lora_dropout"))

    def rate(self, step: int) -> float:
        """Learning rate of a step, counted from 0."""
        if step < self.warmup:
            return self.learning_rate * (step + 1) / self.warmup
        left = 1.0 - (step - self.warmup) / max(1, self.steps - self.warmup)
        return self.learning_rate * max(0.1, left)
