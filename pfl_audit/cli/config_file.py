"""Settings of a command from a TOML file."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import typer

from pfl_audit.errors import AuditError, UsageError
from pfl_audit.inputs import read_text

TARGETS: Final = "targets"
META = "pfl_audit.settings"
"""Key of a command's context under which the tables of attacks and subjects are kept."""
KINDS = ("attacks", "subjects")
WAIVERS = "waivers"
"""Key of ``[[waivers]]``, accepted findings and gates."""
CHOSEN = "pfl_audit.target"
"""Key of a command's context under which the target is kept that was taken from a file."""
_NAMED, _OPEN = "pfl_audit.target.named", "pfl_audit.target.open"
PUBLISHED = "published"
"""Key of ``[[published]]``, numbers that a paper prints."""
_MAX_FILE, _MAX_LINE = 1 << 16, 1 << 12
"""Bytes and letters: the time that tomllib takes grows with the square of the levels of a dotted key."""
_LARGEST = 1 << 63
_KINDS: Mapping[str, tuple[tuple[type, ...], str]] = {
    "boolean": ((bool,), "true or false"),
    "integer": ((int,), "a whole number"),
    "float": ((int, float), "a number"),
}
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_MOST_TARGETS = 1000
_TEXT = ((str,), "a text")


def take_defaults(context: typer.Context, path: Path) -> None:
    """Take defaults of a command from a file: keys outside of tables, then ``[data]``, then ``[data.make]``.

    ``[attacks.NAME]`` and ``[subjects.NAME]`` hold settings of an attack and inputs of a subject, ``[[waivers]]``
    findings and gates that are accepted, ``[[published]]`` numbers that a paper prints.

    Raises:
        UsageError: There is no such file, or it names a setting that there is not, or a wrong value of one.
        AuditError: It cannot be read as TOML.
    """
    table, name = read_config(path), context.meta.get(_NAMED)
    if name is None and TARGETS in table and any(one.name == "target" for one in context.command.params):
        context.meta[_OPEN] = path, table  # --target may follow
    else:
        _take(context, path, table if name is None else _of_target(context, path, table, name))


def choose_target(context: typer.Context, name: str | None) -> None:
    """Take the defaults of one of the targets of a file, before or after the file is named.

    Raises:
        UsageError: The file has targets and none is named, or it has not the one that is.
    """
    if (opened := context.meta.pop(_OPEN, None)) is not None:
        path, table = opened
        _take(context, path, _of_target(context, path, table, name))
    elif name is not None:
        context.meta[_NAMED] = name


def _of_target(context: typer.Context, path: Path, table: Mapping[str, Any], name: str | None) -> dict[str, Any]:
    own = with_target(path, table, name)
    context.meta[CHOSEN] = name
    return own


def _take(context: typer.Context, path: Path, table: dict[str, Any]) -> None:
    context.meta[META] = {
        **{kind: _tables(path, kind, table.pop(kind, {})) for kind in KINDS},
        **{kind: _list_of_tables(path, kind, table.pop(kind, [])) for kind in (WAIVERS, PUBLISHED)},
    }
    known = _settings(context)
    steps: list[Any] = [context]
    while steps[0].parent is not None:
        steps.insert(0, steps[0].parent)
    command = " ".join(step.info_name or "" for step in steps[1:])
    remedy = f"'pfl-audit {command} --help' lists them"
    values: dict[str, Any] = {}
    for prefix, key, value in _keys(table, steps):
        parameter = known.get(key.replace("_", "-"))
        if parameter is None or parameter.name is None:
            raise UsageError(f"{path}: there is no setting '{prefix}{key}' of {command}", remedy)
        try:
            values[parameter.name] = _checked(context, parameter, value)
        except ValueError as error:
            raise UsageError(f"{path}: '{prefix}{key}' must be {error}", remedy) from error
    context.default_map = {**(context.default_map or {}), **values}


def _tables(path: Path, kind: str, table: object) -> dict[str, dict[str, object]]:
    """The tables ``[attacks.NAME]`` or ``[subjects.NAME]``; an audit validates what is in them."""
    if not isinstance(table, dict) or not all(isinstance(value, dict) for value in table.values()):
        raise UsageError(f"{path}: '{kind}' must be tables", f"Write [{kind}.NAME]")
    return table


def _list_of_tables(path: Path, kind: str, tables: object) -> list[dict[str, object]]:
    """The tables ``[[waivers]]`` or ``[[published]]``; an audit validates what is in them."""
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise UsageError(f"{path}: '{kind}' must be tables", f"Write [[{kind}]] before each")
    return tables


def read_config(path: Path) -> dict[str, Any]:
    """The content of a TOML file.

    Raises:
        UsageError: There is no such file.
        AuditError: It cannot be read as TOML.
    """
    text = read_text(path, limit=_MAX_FILE, remedy="Check --config")
    if max(map(len, text.splitlines()), default=0) > _MAX_LINE:
        raise AuditError(f"{path} holds a line of more than {_MAX_LINE:,} letters", "Check --config")
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise AuditError(f"{path} is not valid TOML: {error}", "Correct it") from error
    except ValueError as error:
        raise AuditError(f"{path} is not valid TOML: a number in it is too long", "Correct it") from error
    except RecursionError as error:
        raise AuditError(f"{path} is nested too deeply", "Correct it") from error


def _keys(table: dict[str, Any], steps: list[Any]) -> Iterator[tuple[str, str, Any]]:
    """(tables above it, key, value) of every setting that concerns the command, the nearest table last."""
    prefix = ""
    for step, below in zip(steps, [*steps[1:], None], strict=True):
        commands = getattr(step.command, "commands", {})
        for key, value in table.items():
            if not (key in commands and isinstance(value, dict)):
                yield prefix, key, value
        if below is not None:
            table = found if isinstance(found := table.get(below.info_name or ""), dict) else {}
            prefix += f"{below.info_name}."


def _settings(context: typer.Context) -> dict[str, Any]:
    """Name of the flag, or of the argument, to its parameter."""
    known: dict[str, Any] = {}
    for parameter in context.command.params:
        flags = [flag.removeprefix("--") for flag in parameter.opts if flag.startswith("--")]
        known |= dict.fromkeys(flags or [str(parameter.name)], parameter)
    return {name: parameter for name, parameter in known.items() if name not in ("config", "help")}


def _checked(context: typer.Context, parameter: Any, value: Any) -> Any:
    """The value, where the parameter takes it.

    Raises:
        ValueError: It does not; the text says what it takes.
    """
    repeatable = getattr(parameter, "multiple", False)
    values = value if repeatable and isinstance(value, list) else [value]
    kind = "boolean" if getattr(parameter, "is_flag", False) else parameter.type.name.removesuffix(" range")
    types, wanted = _KINDS.get(kind, _TEXT)
    for one in values:
        if not isinstance(one, types) or (isinstance(one, bool) and bool not in types):
            raise ValueError(_range(parameter.type) if getattr(parameter.type, "choices", None) else wanted)
        if isinstance(one, int) and abs(one) >= _LARGEST:
            raise ValueError("a smaller number")
        try:
            parameter.type.convert(one, parameter, context)
        except Exception as error:  # click's or typer's own class, by version
            if not hasattr(error, "format_message"):
                raise
            raise ValueError(_range(parameter.type) or wanted) from error
    return values if repeatable else value


def _range(kind: Any) -> str:
    """What a number or a choice must be."""
    if choices := getattr(kind, "choices", None):
        return "one of " + ", ".join(str(getattr(choice, "value", choice)) for choice in choices)
    low, high = getattr(kind, "min", None), getattr(kind, "max", None)
    if low is not None and high is not None:
        return f"from {low} to {high}"
    return f"{low} or more" if low is not None else f"{high} or less" if high is not None else ""


def targets_of(path: Path, table: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The targets of a file by name, each with what it states itself.

    Args:
        table: Content of the file.

    Raises:
        UsageError: They are no tables, a name is missing, unfit for a folder or there twice, or one sets ``out``.
    """
    given: list[dict[str, Any]] = _list_of_tables(path, TARGETS, table.get(TARGETS, []))
    if len(given) > _MOST_TARGETS:
        raise UsageError(f"{path} has {len(given)} targets, more than {_MOST_TARGETS}", "Write several files")
    found: dict[str, dict[str, Any]] = {}
    for number, one in enumerate(given, 1):
        name = one.get("name")
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            remedy = "Take letters, digits, '.', '_' and '-': it is the name of a folder"
            raise UsageError(f"{path}: target {number} has no usable name", remedy)
        if name in found:
            raise UsageError(f"{path}: two targets have the name {name}", "Name them differently")
        if "out" in one:
            raise UsageError(f"{path}: the target {name} sets 'out'", "Set it once: a target gets a folder in it")
        found[name] = {key: value for key, value in one.items() if key != "name"}
    return found


def with_target(path: Path, table: Mapping[str, Any], name: str | None) -> dict[str, Any]:
    """The content of a file for one of its targets.

    Raises:
        UsageError: As of ``targets_of``, there is no such target, or there are some and none is chosen.
    """
    targets = targets_of(path, table)
    own = {key: value for key, value in table.items() if key != TARGETS}
    if name is None:
        if targets:
            raise UsageError(
                f"{path} has {len(targets)} targets", "Run them all with 'pfl-audit run', or one with --target NAME"
            )
        return own
    if name not in targets:
        known = ", ".join(targets) or "none"
        raise UsageError(f"{path} has no target {name:.100}; it has {known:.300}", "Choose one of them")
    return own | targets[name]
