"""Options of ``train``, made from the fields of settings classes."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, dataclass, field, fields
from typing import TYPE_CHECKING, Annotated, Any, Union

import typer

from pfl_audit.cli.settings_options import option_type
from pfl_audit.training.settings import flag_of, settings_fields

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
        flags: Field to its flag, where that is not made from the name.
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
            info, default = known[name], None if name in self.defaults else defaults[name]
            kind, low, high = option_type(info.annotation, info.metadata)
            shown: str | bool = self.defaults.get(name) or not any(default is none for none in (None, False, MISSING))
            option = typer.Option(
                self.flags.get(name, flag_of(name)),
                help=info.description,
                show_default=shown,
                rich_help_panel=self.panel,
                min=low,
                max=high,
            )
            yield inspect.Parameter(
                name,
                inspect.Parameter.KEYWORD_ONLY,
                default=inspect.Parameter.empty if default is MISSING else default,
                annotation=Annotated[Union[kind, None] if default is None else kind, option],  # noqa: UP007 - made here
            )

    def given(self, values: Values) -> dict[str, Any]:
        """The values of these fields, without those that are None."""
        return {name: values[name] for name in self.names if values[name] is not None}


def make_command(
    function: Callable[..., None], groups: tuple[OptionGroup, ...], more: Mapping[str, tuple[Any, Any]]
) -> Callable[..., None]:
    """A function that typer makes a command of.

    Args:
        function: Called with the context and the values of all options by name; its docstring is the help.
        groups: Options made from settings; of fields with the same name the first counts.
        more: Further options, name to (annotation, default).
    """

    def command(context: typer.Context, **values: Any) -> None:
        function(context, values)

    parameters = {"context": inspect.Parameter("context", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)}
    for group in groups:
        for parameter in group.parameters():
            parameters.setdefault(parameter.name, parameter)
    for name, (annotation, default) in more.items():
        parameters[name] = inspect.Parameter(
            name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation
        )
    command.__doc__ = function.__doc__
    command.__signature__ = inspect.Signature(list(parameters.values()))  # type: ignore[attr-defined]
    command.__annotations__ = {name: parameter.annotation for name, parameter in parameters.items()}
    return command
