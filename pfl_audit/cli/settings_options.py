"""Options of a command, made from the fields of settings."""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Final, Literal, Union, get_args, get_origin

import typer
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from pfl_audit.core.settings import Flag, flag_of

_PLAIN: Final = (bool, int, float, str, Path)
_GIVEN: Final = ("COMMANDLINE", "DEFAULT_MAP", "ENVIRONMENT")
"""Sources of a parameter that the user gave: on the command line or in a configuration file."""


@dataclass(frozen=True)
class Options:
    """Options for the fields of one settings class.

    Attributes:
        owner: Name of the attack, subject or part of the command that the settings belong to.
        model: Class of the settings.
        names: Fields to offer, in order; all that are not hidden if None.
        panel: Title of the group in help, for fields that name none.
        defaults: Field to the text that help shows in place of its default.
        required: Fields that must be given.
    """

    owner: str
    model: type[BaseModel]
    names: tuple[str, ...] | None = None
    panel: str | None = None
    defaults: Mapping[str, str] = field(default_factory=dict)
    required: tuple[str, ...] = ()

    def parameters(self) -> list[inspect.Parameter]:
        """One keyword-only parameter a field, annotated for typer."""
        return [self._parameter(name) for name in self._offered()]

    def given(self, context: typer.Context, values: Mapping[str, object]) -> dict[str, object]:
        """Field to value, for the options that the user gave."""
        found: dict[str, object] = {}
        for name in self._offered():
            parameter = f"{self.owner}__{name}"
            source = context.get_parameter_source(parameter)
            value = values.get(parameter)
            if source is not None and source.name in _GIVEN and value is not None:
                found[name] = tuple(value) if isinstance(value, list) else value
        return found

    def _offered(self) -> Sequence[str]:
        if self.names is not None:
            return self.names
        return [name for name, info in self.model.model_fields.items() if not flag_of(info).hidden]

    def _parameter(self, name: str) -> inspect.Parameter:
        info = self.model.model_fields[name]
        flag = flag_of(info)
        kind, low, high = option_type(info.annotation, info.metadata)
        text = self.defaults.get(name, flag.default)
        default = info.default
        if isinstance(default, tuple):
            default = list(default) or None
        option = typer.Option(
            *_names(name, flag, default),
            help=info.description,
            min=low,
            max=high,
            show_default=text if text is not None else default is not None and default is not False,
            rich_help_panel=flag.panel or self.panel,
        )
        required = name in self.required
        annotation = kind if required or default is not None else Union[kind, None]  # noqa: UP007 - made at run time
        return inspect.Parameter(
            f"{self.owner}__{name}",
            inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty if required else default,
            annotation=Annotated[annotation, option],
        )


def option_type(annotation: object, metadata: Sequence[object]) -> tuple[type, float | None, float | None]:
    """What typer makes an option of.

    Args:
        annotation: Type of a field: plain, Literal, optional, or a tuple of such.

    Returns:
        The type (a list for a tuple), and the least and the greatest value where both ends are included.
    """
    if get_origin(annotation) is Annotated:
        inner, *more = get_args(annotation)
        constraints = [part for item in more for part in (item.metadata if isinstance(item, FieldInfo) else [item])]
        return option_type(inner, constraints)
    if get_origin(annotation) is tuple:
        kind, low, high = option_type(get_args(annotation)[0], ())
        return list[kind], low, high  # type: ignore[valid-type] # made at run time
    if get_origin(annotation) in (Union, types.UnionType):
        return option_type(next(part for part in get_args(annotation) if part is not type(None)), metadata)
    low, high = (_bound(metadata, *names) for names in (("ge", "gt"), ("le", "lt")))
    if annotation is int:
        low = _inclusive(low, metadata, "gt", 1)
        high = _inclusive(high, metadata, "lt", -1)
    elif annotation is float and (_bound(metadata, "gt") is not None or _bound(metadata, "lt") is not None):
        low, high = _bound(metadata, "ge"), _bound(metadata, "le")  # the settings check the open ends
    if annotation in _PLAIN or get_origin(annotation) is Literal:
        return annotation, low, high  # type: ignore[return-value] # Literal is no type, and typer takes it
    raise TypeError(f"no option can be made of {annotation}; hide the field")


def _names(name: str, flag: Flag, default: object) -> list[str]:
    """Flags of an option; a switch that is on by default has one to turn it off."""
    first = flag.name or f"--{name.replace('_', '-')}"
    if default is True:
        return [f"{first}/--no-{first.removeprefix('--')}"]
    return [first]


def _bound(metadata: Sequence[object], *names: str) -> float | None:
    for part in metadata:
        for name in names:
            if (found := getattr(part, name, None)) is not None:
                return float(found)
    return None


def _inclusive(bound: float | None, metadata: Sequence[object], open_end: str, step: int) -> float | None:
    return None if bound is None else bound + step * (_bound(metadata, open_end) is not None)


def keyword(name: str, annotation: object, default: object) -> inspect.Parameter:
    """A keyword-only parameter."""
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def with_parameters(function: Callable[..., None], parameters: Sequence[inspect.Parameter]) -> Callable[..., None]:
    """A function that typer takes to have a context and these parameters."""
    context = inspect.Parameter("context", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context)
    every = [context, *parameters]
    function.__signature__ = inspect.Signature(every)  # type: ignore[attr-defined]
    function.__annotations__ = {parameter.name: parameter.annotation for parameter in every}
    return function
