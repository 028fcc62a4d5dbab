"""``schema``: what results.json looks like, as a JSON Schema and as a page of the documentation."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Final

import typer

from pfl_audit.cli.console import print_json

Schema = Mapping[str, object]
_HEAD: Final = """# results.json

Schema version {version}. `pfl-audit schema` prints it as a JSON Schema, `pfl-audit schema --check FILE` checks a
file against it and its limits, and `pfl-audit schema --markdown` made this page.

- Versions 2.x only add fields that have a default; no field is removed, and none changes its meaning. A file of an
  earlier 2.x, and of version 1, is read as it is. A reader should ignore fields that it does not know.
- A file that pfl-audit reads may come from anywhere: unknown fields, and values beyond the limits, are refused.
- Names of companies, pages and values are pseudonyms or masks unless `provenance.revealed` is true.
"""


def schema(
    check: Annotated[Path | None, typer.Option("--check", help="Check a results.json, or the folder of a run.")] = None,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print every field as a table for documents.")] = False,
) -> None:
    """Print the JSON Schema of results.json, or check a file against it and its limits.

    Example: pfl-audit schema > results.schema.json
    """
    from pfl_audit.core.results import VERSION, Results, read_results, results_path

    if check is not None:
        results = read_results(check)
        count = len(results.checks)
        typer.echo(f"{results_path(check)} is valid, and read as version {VERSION}: {count} checks")
    elif markdown:
        typer.echo(schema_page(), nl=False)
    else:
        print_json(Results.model_json_schema())


def schema_page() -> str:
    """Markdown: one section an object, one row a field."""
    from pfl_audit.core.results import VERSION, Results

    schema = Results.model_json_schema()
    objects: dict[str, object] = {"Results": schema, **schema["$defs"]}
    parts = [_HEAD.format(version=VERSION)]
    for name, one in objects.items():
        if isinstance(one, Mapping) and "properties" in one:
            parts.append(_section(name, one))
    return "\n".join(parts)


def _section(name: str, one: Schema) -> str:
    about = str(one.get("description", "")).split("\n")[0].replace("``", "`")
    fields = one["properties"]
    required = one.get("required", [])
    rows: list[str] = []
    if isinstance(fields, Mapping) and isinstance(required, list):
        rows = [_row(field, part, must=field in required) for field, part in fields.items()]
    table = ["| field | type | default | meaning |", "| --- | --- | --- | --- |", *rows]
    return "\n".join([f"## {name}", "", about, "", *table, ""])


def _row(field: str, part: Schema, *, must: bool) -> str:
    empty = {"array": "[]", "object": "{}"}.get(str(part.get("type")), "null")
    default = "required" if must else f"`{_literal(part['default']) if 'default' in part else empty}`"
    cells = (f"`{field}`", " or ".join(_types(part)), default, str(part.get("description", "")).replace("\n", " "))
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def _types(part: Schema) -> Iterable[str]:
    if isinstance(reference := part.get("$ref"), str):
        name = reference.rsplit("/", 1)[-1]
        yield f"[{name}](#{name.lower()})"
    elif isinstance(choices := part.get("anyOf"), list):
        for choice in choices:
            yield from _types(choice)
    elif "const" in part:
        yield f"`{_literal(part['const'])}`"
    elif isinstance(values := part.get("enum"), list):
        yield ", ".join(f"`{value}`" for value in values)
    elif part.get("type") == "array" and isinstance(items := part.get("items", {}), Mapping):
        most = f" (at most {part['maxItems']:,})" if "maxItems" in part and "minItems" not in part else ""
        yield f"list of {' or '.join(_types(items)) or 'values'}{most}"
    elif part.get("type") == "object":
        values = part.get("additionalProperties")
        inner = " or ".join(_types(values)) if isinstance(values, Mapping) else ""
        yield f"object of {inner}" if inner else "object"
    elif isinstance(kind := part.get("type"), str):
        yield {"null": "null", "string": "text"}.get(kind, kind)


def _literal(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)
