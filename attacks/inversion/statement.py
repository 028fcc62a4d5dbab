"""What is stated of a captured update, in a TOML file beside it: g.toml for g.safetensors."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, Literal

from pydantic import Field, ValidationError
from torch import Tensor

from pfl_audit.attacks.inversion.clients import norm_of
from pfl_audit.attacks.inversion.inputs import GradientInputs
from pfl_audit.attacks.inversion.update.traits import Traits, traits_of
from pfl_audit.core.settings import Settings
from pfl_audit.errors import AuditError, UsageError
from pfl_audit.inputs import is_there, read_text
from pfl_audit.progress import Progress

_LARGEST = 1 << 12
"""Bytes of a file."""
_ENOUGH = 100
"""Entries of a tensor from which on its size shows whether it holds noise."""
_ABOVE = 1.001
"""Of the stated norm, up to which rounding explains more."""
_NAMES: Final = {"batch": "pages", "steps": "local_steps", "noise": "noise", "clip": "clip"}
"""Inputs of the subject, and their keys in the file."""
_MOST_PAGES = 64
_MOST_STEPS = 1_000_000


class Statement(Settings):
    """What a client did before it sent an update. What is left out is unknown, and looked for in the numbers."""

    kind: Literal["gradient", "difference"] | None = Field(
        default=None, description="A gradient, or a difference of weights."
    )
    optimizer: Literal["sgd", "momentum", "adam", "adamw"] | None = Field(
        default=None, description="Optimiser of the local steps."
    )
    learning_rate: float | None = Field(default=None, gt=0, allow_inf_nan=False, description="Its learning rate.")
    weight_decay: float | None = Field(
        default=None, ge=0, allow_inf_nan=False, description="Decoupled weight decay of a step, before the rate."
    )
    local_steps: int | None = Field(default=None, ge=1, le=_MOST_STEPS, description="Optimiser steps.")
    pages: int | None = Field(default=None, ge=1, le=_MOST_PAGES, description="Pages of a client's update.")
    clients: int = Field(default=1, ge=1, le=_MOST_PAGES, description="Clients whose updates were added up.")
    precision: Literal["float32", "bfloat16", "float16"] | None = Field(
        default=None, description="Precision of the numbers."
    )
    codec: Literal["none", "int8", "int4", "nf4", "top-k"] | None = Field(
        default=None, description="How the update was compressed."
    )
    clip: float | None = Field(default=None, gt=0, allow_inf_nan=False, description="Norm that it was clipped to.")
    noise: float | None = Field(
        default=None, ge=0, allow_inf_nan=False, description="Standard deviation of noise on every entry."
    )
    dropout: float | None = Field(
        default=None, ge=0, lt=1, description="Rate of dropout on the inputs of the first layers."
    )
    tensors: tuple[str, ...] | None = Field(default=None, description="Names of the parameters that were sent.")

    def lines(self) -> str:
        """What is stated, for a report."""
        given = self.model_dump(exclude_none=True, exclude={"tensors"}, exclude_defaults=True)
        return ", ".join(f"{key.replace('_', ' ')} {value}" for key, value in given.items())


def read_statement(gradient: Path) -> Statement | None:
    """Read the file beside a captured update; None where there is none.

    Raises:
        AuditError: It cannot be read, is not TOML, or states something that there is not.
    """
    path = gradient.with_suffix(".toml")
    if not is_there(path):
        return None
    try:
        return Statement.model_validate(tomllib.loads(read_text(path, limit=_LARGEST)))
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise AuditError(f"{path} is not valid TOML", "Write KEY = VALUE lines, or remove it") from error
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        name = ".".join(str(part)[:40] for part in first["loc"])
        raise AuditError(
            f"{path}: '{name}' is wrong: {first['msg']}", f"Its keys are {', '.join(Statement.model_fields)}"
        ) from error


def with_statement(inputs: GradientInputs, stated: Statement) -> GradientInputs:
    """The inputs, with what the file states where no option does.

    Raises:
        UsageError: An option says something else than the file, or the pages of all clients are too many.
    """
    if stated.kind == "gradient" and (stated.local_steps or 1) > 1:
        raise UsageError("the file beside --gradient states a gradient of several steps", "State a difference")
    pages = None if stated.pages is None and stated.clients == 1 else (stated.pages or 1) * stated.clients
    if pages is not None and pages > _MOST_PAGES:
        raise UsageError(f"the file beside --gradient states {pages} pages; the most are {_MOST_PAGES}", "Audit fewer")
    told = {"batch": pages, "steps": stated.local_steps, "noise": stated.noise, "clip": stated.clip}
    changed = {}
    for name, value in told.items():
        given = getattr(inputs, name)
        if value is None or given == value:
            continue
        if name in inputs.model_fields_set:
            raise UsageError(
                f"an option states {_NAMES[name]} {given}, and the file beside --gradient {value}", "Leave one out"
            )
        changed[name] = value
    return inputs.model_copy(update=changed)


def require_stated(path: Path, update: Mapping[str, Tensor], inputs: GradientInputs) -> None:
    """Check that an update can hold the noise and have the norm that are stated.

    Raises:
        UsageError: It cannot.
    """
    for name, part in update.items():
        size = float(part.double().square().mean().sqrt())
        if part.numel() >= _ENOUGH and size < inputs.noise / 2:
            raise UsageError(
                f"gradient {path} cannot hold noise of {inputs.noise:.2g} an entry: {name} has {size:.2g} in all",
                "State the noise as it was added, or leave --noise out",
            )
    norm = norm_of(update)
    if inputs.clip is not None and not inputs.noise and norm > _ABOVE * inputs.clip:
        raise UsageError(
            f"gradient {path} has a norm of {norm:.3g}, above the {inputs.clip:.3g} that it was clipped to",
            "State the norm as it was, or leave --clip out",
        )


def hold_against(
    path: Path, update: Mapping[str, Tensor], stated: Statement, progress: Progress, tables: Sequence[str] = ()
) -> tuple[str, ...]:
    """What of a statement the numbers of an update contradict; it is also shown by ``progress``.

    Args:
        path: Of the update, for errors.
        update: By parameter.
        tables: Endings of the names of tables whose rows are looked up, which are full of zeros by themselves.

    Raises:
        UsageError: Other tensors are there than stated.
    """
    if stated.tensors is not None and set(stated.tensors) != update.keys():
        name = min(set(stated.tensors) ^ update.keys())
        where = "is in it and not stated" if name in update else "is stated and not in it"
        raise UsageError(f"gradient {path}: tensor {name[:80]!r} {where}", "State the tensors that were sent")
    found = tuple(_contradictions(stated, traits_of(update, tables)))
    for words in found:
        progress.say(f"{path.with_suffix('.toml')} does not fit the numbers: {words}")
    return found


def _contradictions(stated: Statement, found: Traits) -> Iterator[str]:
    adam = stated.optimizer in ("adam", "adamw")
    if found.signs and stated.optimizer is not None and not adam:
        yield f"the optimiser is stated as {stated.optimizer}, and all numbers are of one size, as after a step of Adam"
    if adam and stated.local_steps == 1 and not found.signs and not stated.noise and stated.codec in (None, "none"):
        yield f"one step of {stated.optimizer} is stated, and numbers are of many sizes"
    if stated.precision in ("bfloat16", "float16") and found.rounded != stated.precision and not found.levels:
        yield f"{stated.precision} is stated, and the numbers are not of that precision"
    if stated.precision == "float32" and found.rounded:
        yield f"float32 is stated, and all numbers fit in {found.rounded}"
    if stated.codec == "none" and found.levels:
        yield f"no compression is stated, and a row has at most {found.levels} different numbers"
    if stated.codec == "none" and found.kept < 1:
        yield f"no compression is stated, and {found.kept:.1%} of the entries are not zero"
    if stated.codec in ("int4", "nf4") and not (found.levels or found.signs):
        yield f"{stated.codec} is stated, and rows have hardly two numbers that are equal"
    if stated.codec == "top-k" and found.kept == 1:
        yield "top-k is stated, and no entries were left out"
