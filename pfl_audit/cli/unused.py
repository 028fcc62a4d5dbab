"""Options that another option makes meaningless: said so, instead of being ignored."""

from __future__ import annotations

from collections.abc import Mapping

import typer

from pfl_audit.errors import UsageError


def refuse_unused(context: typer.Context, why: Mapping[str, str], *, typed: bool = False) -> None:
    """Stop where an option was given that nothing will look at.

    Args:
        why: Name of a parameter to why it means nothing here.
        typed: Whether a configuration may hold it, because other runs of the same file look at it.

    Raises:
        UsageError: One of them is on the command line or in the configuration.
    """
    places = ("COMMANDLINE",) if typed else ("COMMANDLINE", "DEFAULT_MAP")
    for parameter in context.command.params:
        name = parameter.name or ""
        source = context.get_parameter_source(name)
        if name in why and source is not None and source.name in places:
            raise UsageError(f"{parameter.opts[0]} means nothing {why[name]}", "Leave it out")
