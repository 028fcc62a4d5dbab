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

from pfl_audit.core.settings import flag_of

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
    """

    owner: str
    model: type[BaseModel]
    names: tuple[str, ...] | None = None
    panel: str | None = None
    defaults: Mapping[str, str] = field(default_factory=dict)

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
        flag, default = flag_of(info), info.default
        if isinstance(default, tuple):
            default = list(default) or None
        text = self.defaults.get(name, flag.default)
        shown = text if text is not None else default is not None and default is not False
        flags = _flags(flag.name or f"--{name.replace('_', '-')}", default)
        return option_parameter(f"{self.owner}__{name}", info, flags, default, shown, flag.panel or self.panel)


def option_parameter(
    name: str, info: FieldInfo, flags: Sequence[str], default: object, shown: str | bool, panel: str | None
) -> inspect.Parameter:
    """The keyword-only parameter of a field, annotated for typer.

    Args:
        name: Name of the parameter.
        info: The field.
        flags: Names of the option.
        default: Value of an option that is not given; one that may be None is optional.
        shown: Text for the default in help, or whether help shows it.
        panel: Title of the option's group in help.
    """
    kind, low, high = option_type(info.annotation, info.metadata)
    option = typer.Option(*flags, help=info.description, min=low, max=high, show_default=shown, rich_help_panel=panel)
    annotation = kind if default is not None else Union[kind, None]  # noqa: UP007 - made at run time
    return keyword(name, Annotated[annotation, option], default)


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
    low, high, above, below = (_bound(metadata, name) for name in ("ge", "le", "gt", "lt"))
    if annotation is int:  # the settings check the open ends of floats
        low = low if above is None else above + 1
        high = high if below is None else below - 1
    if annotation in _PLAIN or get_origin(annotation) is Literal:
        return annotation, low, high  # type: ignore[return-value] # Literal is no type, and typer takes it
    raise TypeError(f"no option can be made of {annotation}; hide the field")


def _flags(first: str, default: object) -> list[str]:
    """Flags of an option; a switch that is on by default has one to turn it off."""
    return [f"{first}/--no-{first.removeprefix('--')}" if default is True else first]


def _bound(metadata: Sequence[object], name: str) -> float | None:
    for part in metadata:
        if (found := getattr(part, name, None)) is not None:
            return float(found)
    return None


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
