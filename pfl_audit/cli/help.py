"""Help pages that read the same with every version of typer and click that may be installed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import typer
from typer.core import TyperCommand, TyperGroup
from typer.utils import get_params_from_function

from pfl_audit.errors import UsageError

_PATHS = ("Path", "TyperPath")
_CHECKPOINTS = ("model", "--model", "--pretrained", "--control", "--reference", "--public", "--public-target")
NAME_A_PATH = "Name a file or folder, and check that a variable for it is set"
Function = TypeVar("Function", bound=Callable[..., Any])


class Command(TyperCommand):
    """A command whose help keeps the words about its arguments and groups its options by their panels.

    Some versions of typer and click lose an argument's help between them, and print a backslash before the brackets of
    a default where rich is installed and its markup is off.
    """

    def __init__(self, *given: Any, **more: Any) -> None:
        super().__init__(*given, **more)
        declared = get_params_from_function(self.callback) if self.callback else {}
        for parameter in self.params:
            found = declared.get(parameter.name or "")
            if found is not None and not getattr(parameter, "help", None):
                parameter.help = getattr(found.default, "help", None)

    def parse_args(self, ctx: Any, args: list[str]) -> Any:
        """Parse arguments; an empty path, such as of a variable that is not set, is not the folder of the caller.

        Raises:
            UsageError: A path is empty.
        """
        given, _, _ = self.make_parser(ctx).parse_args(args=list(args))
        for parameter in self.params:
            value = given.get(parameter.name or "")
            values = value if isinstance(value, list | tuple) else [value]
            named = type(parameter.type).__name__ in _PATHS or parameter.opts[-1] in _CHECKPOINTS
            if named and "" in values:
                name = parameter.opts[0]
                raise UsageError(f"{name if name.startswith('-') else name.upper()} is an empty path", NAME_A_PATH)
        return super().parse_args(ctx, args)

    def format_arguments(self, ctx: Any, formatter: Any) -> None:
        """Write nothing: click calls this from 8.5 on, and ``format_options`` lists the arguments."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write a list of arguments, one of options, and one for every panel."""
        panels: dict[str, list[tuple[str, str]]] = {"Arguments": [], "Options": []}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None:
                usual = "Arguments" if parameter.param_type_name == "argument" else "Options"
                panel = getattr(parameter, "rich_help_panel", None) or usual
                panels.setdefault(panel, []).append((record[0], record[1].replace("\\[", "[")))
        for title, rows in panels.items():
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)


class Group(TyperGroup):
    """A group whose help shows the summary of every command in full."""

    def __init__(self, *given: Any, **more: Any) -> None:
        super().__init__(*given, **more)
        self.suggest_commands = False  # click names near commands from 8.5 on, and typer would name them again

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the commands with the first paragraph of their help."""
        rows = []
        for name in self.list_commands(ctx):
            command = self.get_command(ctx, name)
            if command is not None and not command.hidden:
                rows.append((name, " ".join((command.help or "").split("\n\n")[0].split())))
        with formatter.section("Commands"):
            formatter.write_dl(rows)


class App(typer.Typer):
    """A typer app of such commands."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"cls": Group, **options})

    def command(self, name: str | None = None, **options: Any) -> Callable[[Function], Function]:
        """Register a command."""
        return super().command(name, **{"cls": Command, **options})
