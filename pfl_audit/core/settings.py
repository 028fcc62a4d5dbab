"""Settings of attacks and inputs of subjects: each field is written once, and the command line is made from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, TypeVar, get_args, get_origin, runtime_checkable

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic.fields import FieldInfo

from pfl_audit.core.redaction import visible
from pfl_audit.errors import UsageError

_HEAD = "settings as published"


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
TableT = TypeVar("TableT", bound=BaseModel)


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
        name, problem = _first_fault(error)
        setting = f"the setting '{name}' of {owner}" if name else f"a setting of {owner}"
        raise UsageError(f"{setting} is wrong: {problem}", f"'pfl-audit explain {owner}' lists the settings") from error


def read_tables(
    model: type[TableT], tables: Sequence[Mapping[str, object]], name: str, keys: str, context: object = None
) -> list[TableT]:
    """Tables of a configuration file.

    Args:
        name: What one of them is, for the error.
        keys: Keys that a table takes, for the error.
        context: For the validators of ``model``.

    Raises:
        UsageError: A key is missing, unknown or wrong; the table is named by its position.
    """
    found = []
    for place, table in enumerate(tables, 1):
        try:
            found.append(model.model_validate(dict(table), context=context))
        except ValidationError as error:
            key, problem = _first_fault(error)
            raise UsageError(f"{name} {place}: '{visible(key, 80)}' is wrong: {problem}", f"Give {keys}") from error
    return found


def _first_fault(error: ValidationError) -> tuple[str, str]:
    """Name of the first field that is wrong, and what is wrong with it."""
    first = error.errors(include_url=False, include_input=False, include_context=False)[0]
    return ".".join(str(part) for part in first["loc"]), first["msg"]


def with_published(model: type[Settings], stated: Mapping[str, object]) -> dict[str, object]:
    """Settings with the paper's value of every field that has one and that the user does not state.

    Args:
        model: Class of the settings.
        stated: Settings that the user states, which win.
    """
    return {**{name: one.value for name, one in paper_values(model).items()}, **stated}


def label_of(settings: Settings, stated: Mapping[str, object]) -> str | None:
    """What is said of numbers of an attack under ``--as-published``; None where no field has a value of a paper.

    Args:
        settings: Settings that the attack runs with.
        stated: Settings that the user states; those that differ from what the switch would give are named.
    """
    model = type(settings)
    published = {name: one.value for name, one in paper_values(model).items()}
    if not published:
        return None
    used = {name: getattr(settings, name) for name in model.model_fields}
    expected = {name: published.get(name, info.get_default()) for name, info in model.model_fields.items()}
    own = [name for name in stated if used[name] != expected[name]]
    paper = [name for name in published if name not in own]
    text = f"{_HEAD}: {', '.join(_said(model, name, used[name]) for name in paper)}" if paper else f"{_HEAD}: none"
    return text + (f"; stated by the user instead: {', '.join(_said(model, n, used[n]) for n in own)}" if own else "")


def _said(model: type[Settings], name: str, value: object) -> str:
    """A setting with its value, which is left out where it may be a path or a text of a document."""
    if isinstance(value, float):
        return f"{name} = {value:.4g}"
    if isinstance(value, bool):
        return f"{name} = {str(value).lower()}"
    if isinstance(value, int) or (isinstance(value, str) and _is_choice(model.model_fields[name].annotation)):
        return f"{name} = {value}"
    return name


def _is_choice(annotation: object) -> bool:
    """Whether all texts of a type are words of ours."""
    parts = get_args(annotation)
    return get_origin(annotation) is Literal or any(_is_choice(part) for part in parts)
