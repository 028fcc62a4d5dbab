"""Settings of attacks and inputs of subjects: each field is written once, and the command line is made from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, TypeVar, runtime_checkable

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic.fields import FieldInfo

from pfl_audit.errors import UsageError


class Settings(BaseModel):
    """Base of settings: immutable, without unknown keys, finite. Every field has a description and bounds."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


@runtime_checkable
class InMemory(Protocol):
    """Documents in memory, given in place of a path."""

    @property
    def digest(self) -> str:
        """SHA-256 of the content."""
        ...


@dataclass(frozen=True)
class Flag:
    """How a field appears as an option of a command.

    Attributes:
        name: Flag, such as ``--prior-txt``; made from the field's name if None.
        default: Text that help shows in place of the default.
        panel: Title of the group in which help lists it.
        shared: Whether ``pfl-audit audit`` has the option as well.
        hidden: Whether no command has the option, so that it is given by ``--set`` or a configuration file.
        private: Whether its value may be text of a document, which a report does not print.
        checkpoint: Whether its value names checkpoints: folders, or hub ids where these may be fetched.
    """

    name: str | None = None
    default: str | None = None
    panel: str | None = None
    shared: bool = False
    hidden: bool = False
    private: bool = False
    checkpoint: bool = False


@dataclass(frozen=True)
class PaperValue:
    """The paper's value of a field whose default is ours; ``--as-published`` takes it.

    Attributes:
        value: The paper's value, of the field's type.
        source: Where the paper or its code states it.
    """

    value: bool | int | float | str
    source: str


def paper_values(model: type[Settings]) -> dict[str, PaperValue]:
    """Fields of a class that state the paper's value, by name."""
    stated = {
        name: next((part for part in info.metadata if isinstance(part, PaperValue)), None)
        for name, info in model.model_fields.items()
    }
    return {name: found for name, found in stated.items() if found is not None}


def flag_of(info: FieldInfo) -> Flag:
    """How a field appears on the command line."""
    return next((part for part in info.metadata if isinstance(part, Flag)), Flag())


def shared_fields(model: type[Settings]) -> tuple[str, ...]:
    """Names of the fields that ``pfl-audit audit`` has as options."""
    return tuple(name for name, info in model.model_fields.items() if flag_of(info).shared)


def private_options(model: type[Settings]) -> frozenset[str]:
    """Options whose value may be text of a document, such as ``--answer``, and their keys in ``--set``: ``answer``."""
    flags = {name: flag for name, info in model.model_fields.items() if (flag := flag_of(info)).private}
    return frozenset(flags) | {flag.name or f"--{name.replace('_', '-')}" for name, flag in flags.items()}


def checkpoints_of(settings: Settings) -> list[tuple[str, str]]:
    """Checkpoints that settings name, each with the name of its field."""
    found = []
    for name, info in type(settings).model_fields.items():
        given = getattr(settings, name)
        if flag_of(info).checkpoint and given is not None:
            found += [(name, one) for one in ((given,) if isinstance(given, str) else given)]
    return found


SettingsT = TypeVar("SettingsT", bound=Settings)


def read_settings(model: type[SettingsT], values: Mapping[str, object], owner: str) -> SettingsT:
    """Validate settings.

    Args:
        model: Class of the settings.
        values: Values by field name; missing fields take their defaults.
        owner: Name of the attack or subject, for the error.

    Raises:
        UsageError: A key is unknown or a value out of bounds; the key is named.
    """
    try:
        return model.model_validate(dict(values))
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        name = ".".join(str(part) for part in first["loc"])
        setting = f"the setting '{name}' of {owner}" if name else f"a setting of {owner}"
        raise UsageError(
            f"{setting} is wrong: {first['msg']}", f"'pfl-audit explain {owner}' lists the settings"
        ) from error
