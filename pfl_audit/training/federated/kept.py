"""Messages of a federation, kept as the server sees them, for an audit of what each of them gives away.

They lie beside the checkpoint and never in it: one message has less noise than a guarantee of the sum promises, or
none. ``OUT.updates/round-0001/`` has ``model.safetensors`` (the weights that the clients begin with) and for each
message ``client-0003.safetensors`` (or ``sum.safetensors``, where the server sees nothing else), by names of tensors.
A JSON file for each message has the numbers of its clients, its noise, and the ids of the questions that it was trained
on where clients are simulated here.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import sqrt
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeVar

import safetensors.torch
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from torch import Tensor

from pfl_audit.documents.document import Query
from pfl_audit.errors import AuditError, UsageError
from pfl_audit.files import atomic_write, write_json
from pfl_audit.inputs import MIB, is_there, read_text
from pfl_audit.privacy.units import PrivacyUnit
from pfl_audit.training.federated.messages import Report, RoundTask
from pfl_audit.training.federated.plan import PrivacyPlan
from pfl_audit.training.trainable import Trainable

RECORD: Final = "federation.json"
MODEL: Final = "model.safetensors"
SUM: Final = "sum"
_LARGEST = 16 * MIB
_REPEAT = "Train again, with --keep-updates and another --out"
RecordT = TypeVar("RecordT", bound=BaseModel)


class Kept(BaseModel):
    """Record of a federation whose messages are kept.

    Attributes:
        format: Version of the layout.
        run: Digest of what decides the run, with privacy also its noise.
        clients: Number of clients.
        settings: FederatedSettings, as JSON.
        clip: Largest norm of a unit's part of a message; None without privacy.
        unit: Unit of privacy.
    """

    model_config = ConfigDict(strict=True, frozen=True)

    format: Literal[1] = 1
    run: Annotated[str, Field(max_length=64)]
    clients: Annotated[int, Field(ge=1)]
    settings: dict[str, Any]
    clip: Annotated[float | None, Field(gt=0, allow_inf_nan=False)] = None
    unit: PrivacyUnit = "provider"


class Origin(BaseModel):
    """Whose message it is.

    Attributes:
        clients: Numbers of the clients in it; several are a sum.
        noise: Standard deviation of its noise on every entry, 0 without privacy.
        queries: Ids of the questions that it was trained on; None where they are not known.
    """

    model_config = ConfigDict(strict=True, frozen=True)

    clients: tuple[int, ...]
    noise: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0
    queries: tuple[str, ...] | None = None


@dataclass(frozen=True)
class Message:
    """A kept message, not yet read.

    Attributes:
        round: From 1.
        path: Its safetensors file.
        model: The safetensors file of the weights that its round began with.
    """

    round: int
    path: Path
    model: Path
    origin: Origin


def kept_path(out: Path) -> Path:
    """Folder of the messages of the run that makes a checkpoint."""
    place = out.resolve()
    return place.with_name(f"{place.name}.updates")


@dataclass(eq=False)
class KeptMessages:
    """Writes messages while the rounds run.

    Attributes:
        folder: Of this phase.
        record: What is known before the first round.
        trainable: Names the parts of messages.
        plan: Privacy guarantee, or None.
        train: Questions by row, where clients are simulated here.
        secure: Whether the server sees sums alone.
    """

    folder: Path
    record: Kept
    trainable: Trainable
    plan: PrivacyPlan | None
    train: Sequence[Query] = ()
    secure: bool = False

    def begin(self, messages: int, *, begun: bool, done: bool) -> None:
        """Write the record, or find that of the run that goes on.

        Args:
            messages: How many there are going to be, models of rounds among them.
            begun: Whether a part of the run is done.
            done: Whether all rounds are: the key of their noise is gone by then.

        Raises:
            UsageError: The folder is that of another run, the run began without it, or the disk is too small.
        """
        path = self.folder / RECORD
        if is_there(path):
            if read_record(self.folder).run != self.record.run and not done:
                raise UsageError(f"{self.folder} holds the messages of another run", "Move it away")
            return
        if begun:
            raise UsageError("this run began without --keep-updates", "Leave it out, or name another --out")
        needed = messages * self.trainable.bytes_once
        place = next(folder for folder in self.folder.parents if folder.is_dir())
        if (free := shutil.disk_usage(place).free) < needed:
            raise UsageError(
                f"the messages take {needed / 1e9:.1f} GB, and {free / 1e9:.1f} GB are free",
                "Free space, train fewer --rounds, or leave out --keep-updates",
            )
        write_json(path, self.record.model_dump(mode="json"))

    def model(self, number: int, weights: Tensor) -> None:
        """Keep the weights that a round begins with, float32 (size,)."""
        path = _folder_of(self.folder, number) / MODEL
        if not is_there(path):
            self._write(path, weights)

    def message(self, task: RoundTask, place: int, report: Report) -> None:
        """Keep the message of a client, by its place in the round, or the sum of all clients."""
        clients = task.clients if self.secure else (task.clients[place],)
        path = _folder_of(self.folder, task.number) / (SUM if self.secure else f"client-{clients[0]:04d}")
        queries = tuple(self.train[row].id for row in sorted(set(report.rows))) if self.train else None
        origin = Origin(clients=clients, noise=self._noise(task), queries=queries)
        write_json(path.with_suffix(".json"), origin.model_dump(mode="json"))
        self._write(path.with_suffix(".safetensors"), report.update)

    def _noise(self, task: RoundTask) -> float:
        """Standard deviation of the noise of a message."""
        if self.plan is None:
            return 0.0
        mechanism = self.plan.mechanism
        whole = mechanism.noise.multiplier * self.plan.settings.clip
        whole *= mechanism.correlation.deviations[task.number - 1] if len(mechanism.noise.strategy) > 1 else 1
        if self.secure or mechanism.noise.carrier == "message":
            return whole
        return float(whole / sqrt(mechanism.noise.quorum or len(task.clients)))

    def _write(self, path: Path, vector: Tensor) -> None:
        parts = zip(self.trainable.names, self.trainable.parts(vector), strict=True)
        with atomic_write(path) as file:
            file.write(safetensors.torch.save({name: part.contiguous() for name, part in parts}))


def read_record(folder: Path) -> Kept:
    """The record of kept messages.

    Raises:
        UsageError: There is none.
        AuditError: It cannot be read.
    """
    path = folder / RECORD
    if not is_there(path):
        raise UsageError(f"{folder} holds no messages of a federation", _REPEAT)
    return _read(Kept, path)


def messages_of(folder: Path, rounds: Sequence[int] = ()) -> Iterator[Message]:
    """All messages in the order of rounds and clients.

    Args:
        rounds: Numbers of the rounds; all if there is none.

    Raises:
        UsageError: A round has no messages.
        AuditError: A record beside a message cannot be read.
    """
    numbered = ((path.name.removeprefix("round-"), path) for path in sorted(folder.glob("round-*")))
    held = {int(number): path for number, path in numbered if number.isdecimal()}
    for number in rounds or sorted(held):
        if number not in held:
            raise UsageError(
                f"{folder} has no round {number}", f"Choose among {min(held, default=0)} to {max(held, default=0)}"
            )
        # Numbers beyond 9999 have more digits: by length first.
        for path in sorted(held[number].glob("*.safetensors"), key=lambda one: (len(one.name), one.name)):
            if path.name == MODEL:
                continue
            origin = _read(Origin, path.with_suffix(".json"))
            yield Message(number, path, held[number] / MODEL, origin)


def _folder_of(folder: Path, number: int) -> Path:
    return folder / f"round-{number:04d}"


def _read(kind: type[RecordT], path: Path) -> RecordT:
    try:
        return kind.model_validate_json(read_text(path, limit=_LARGEST, remedy=_REPEAT))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"][:1])
        raise AuditError(f"{path} is damaged: {where} {first['msg']:.80}", _REPEAT) from error
