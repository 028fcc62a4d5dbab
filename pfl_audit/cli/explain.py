"""``explain``: settings, checks and needs of an attack, or inputs of a subject."""

from __future__ import annotations

import types
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Literal, Union, get_args, get_origin

import typer
from pydantic.fields import FieldInfo

from pfl_audit.cli import options
from pfl_audit.cli.console import print_json
from pfl_audit.core.attack import CheckSpec
from pfl_audit.core.settings import InMemory, Settings, paper_values
from pfl_audit.errors import UsageError

_BOUNDS = {"ge": "at least", "gt": "above", "le": "at most", "lt": "below"}


def explain(
    name: Annotated[str, typer.Argument(help="Attack or subject; 'pfl-audit list' names them.")],
    markdown: Annotated[bool, typer.Option("--markdown", help="Print the settings as a table for documents.")] = False,
    as_json: options.AsJson = False,
) -> None:
    """Explain an attack or a subject: its checks, what they need, and every setting.

    A setting is given as --set NAME.key=value, or in a configuration file under [attacks.NAME] or [subjects.NAME].

    Example: pfl-audit explain membership
    """
    from pfl_audit.core.attack import ATTACKS
    from pfl_audit.core.subject import SUBJECTS

    attacks, subjects = ATTACKS.installed(), SUBJECTS.installed()
    if name in attacks:
        attack = attacks[name]
        model, checks, lead = attack.Settings, attack.specs, f"{name}: attack on {subjects[attack.subject].title}"
    elif name in subjects:
        model, checks, lead = subjects[name].Inputs, (), f"{name}: {subjects[name].title}"
    else:
        raise UsageError(f"there is no attack or subject '{name}'", f"Choose among: {', '.join((*attacks, *subjects))}")
    rows = setting_rows(model)
    if as_json:
        print_json({"name": name, "checks": [_check(spec) for spec in checks], "settings": rows})
    elif markdown:
        typer.echo(markdown_table(rows))
    else:
        typer.echo("\n".join([lead, *_check_lines(checks), *_setting_lines(name, rows)]))


def setting_rows(model: type[Settings]) -> list[dict[str, str]]:
    """Key, type, default, the paper's value with its source, bounds and description of every setting."""
    published = paper_values(model)
    return [
        {
            "key": key,
            "type": _type_name(info.annotation),
            "default": _default(info),
            "published": _plain(_rounded(published[key].value)) if key in published else "",
            "source": published[key].source if key in published else "",
            "bounds": _bounds(info),
            "description": info.description or "",
        }
        for key, info in model.model_fields.items()
    ]


def markdown_table(rows: Sequence[Mapping[str, str]]) -> str:
    """The settings as a table in Markdown, with the papers' values where there are any."""
    columns = {"key": "setting", "default": "default", "published": "as published", "bounds": "bounds"}
    if not any(row["published"] for row in rows):
        del columns["published"]
    lines = [f"| {' | '.join(columns.values())} | meaning |", f"|{' --- |' * (len(columns) + 1)}"]
    for row in rows:
        cells = [f"`{row['key']}`", *(_cell(row, column) for column in list(columns)[1:]), row["description"]]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _cell(row: Mapping[str, str], column: str) -> str:
    text = row[column].replace("|", ", ")
    return f"{text} ({row['source']})" if column == "published" and text else text


def _check(spec: CheckSpec) -> dict[str, object]:
    return {
        "id": spec.id,
        "title": spec.title,
        "needs": sorted(map(str, spec.needs)),
        "threat_model": dict(spec.threat_model),
        "part_of": spec.part_of,
        "on_request": spec.on_request,
    }


def _check_lines(checks: Sequence[CheckSpec]) -> list[str]:
    lines = ["", "Checks:"] if checks else []
    for spec in checks:
        lines += [f"  {spec.id}: {spec.title}", f"      needs: {', '.join(sorted(map(str, spec.needs)))}"]
        lines += [f"      runs only when it is named: {spec.on_request}"] if spec.on_request else []
    return lines


def _setting_lines(name: str, rows: Sequence[Mapping[str, str]]) -> list[str]:
    lines = ["", f"Settings (--set {name}.KEY=VALUE):"]
    for row in rows:
        published = f"as published {row['published']} ({row['source']})" if row["published"] else ""
        facts = ", ".join(filter(None, (row["type"], f"default {row['default']}", published, row["bounds"])))
        lines += [f"  {row['key']}: {row['description']}", f"      {facts}"]
    return lines


def _type_name(annotation: object) -> str:
    if annotation is type(None):
        return "none"
    if annotation is Ellipsis:
        return "..."
    origin, parts = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _type_name(parts[0]) if InMemory not in parts else "corpus in memory"
    if origin is Literal:
        return " | ".join(map(str, parts))
    if origin is tuple:
        return f"list of {_type_name(parts[0])}"
    if origin in (Union, types.UnionType):
        return " | ".join(map(_type_name, parts))
    names = {str: "text", int: "integer", float: "number", bool: "boolean", Path: "path", InMemory: "corpus in memory"}
    return names.get(annotation, str(annotation)) if isinstance(annotation, type) else str(annotation)


def _default(info: FieldInfo) -> str:
    default = info.default
    if isinstance(default, tuple):
        return ", ".join(map(str, default)) or "none"
    return "none" if default in (None, {}) else _plain(default)


def _plain(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _rounded(value: object) -> object:
    return float(f"{value:.4g}") if isinstance(value, float) else value


def _bounds(info: FieldInfo) -> str:
    found = [
        f"{word} {getattr(part, name):g}"
        for part in info.metadata
        for name, word in _BOUNDS.items()
        if getattr(part, name, None) is not None
    ]
    return ", ".join(found)
