"""Options that several commands have, written once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from pfl_audit.errors import UsageError

FailOn = Literal["leak", "weak", "never"]


def _config(context: typer.Context, path: Path | None) -> Path | None:
    """Take defaults from a TOML file; flags win, unknown keys are errors."""
    if path is None:
        return None
    import tomllib

    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} cannot be read", "Check --config") from error
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{path} is not valid TOML: {error}", "Correct it") from error
    commands = set(context.find_root().command.commands)  # type: ignore[attr-defined]
    known = {parameter.name for parameter in context.command.params} - {"config", "help"}
    name = context.command.name or ""
    common = {key: value for key, value in table.items() if not (key in commands and isinstance(value, dict))}
    own = table.get(name, {})
    values: dict[str, Any] = {}
    for source, prefix in ((common, ""), (own, f"{name}.")):
        for key, value in source.items():
            parameter = key.replace("-", "_")
            if parameter not in known:
                raise UsageError(
                    f"{path}: there is no setting '{prefix}{key}' of {name}", f"'pfl-audit {name} --help' lists them"
                )
            values[parameter] = value
    context.default_map = {**(context.default_map or {}), **values}
    return path


Config = Annotated[
    Path | None,
    typer.Option(
        "--config", help="Settings from a TOML file; flags win.", callback=_config, is_eager=True, show_default=False
    ),
]
Red = Annotated[
    Path, typer.Option("--red", help="Corpus of member and non-member providers: PFL-DocVQA folder or corpus.jsonl.")
]
Blue = Annotated[
    Path | None,
    typer.Option("--blue", help="Training corpus, to recognise its secrets.", show_default=False),
]
Model = Annotated[
    str | None,
    typer.Option(
        "--model", help="Checkpoint under audit: a local folder, or a hub id with --download.", show_default=False
    ),
]
Recorded = Annotated[
    Path | None,
    typer.Option("--answers", help="Recorded answers (.jsonl) of a model that cannot be asked.", show_default=False),
]
Pretrained = Annotated[
    str | None,
    typer.Option("--pretrained", help="Public checkpoint that the model was trained from.", show_default=False),
]
Out = Annotated[
    Path | None,
    typer.Option("--out", help="Folder of the run.", show_default="pfl-audit-runs/<command>-<time>"),
]
Store = Annotated[
    Path | None,
    typer.Option(
        "--store",
        help="Database of answers; share it between runs to ask nothing twice.",
        show_default="beside the run",
    ),
]
Seed = Annotated[int, typer.Option("--seed", min=0, help="Seed of everything that is drawn.")]
Device = Annotated[str, typer.Option("--device", help="torch's name of the device.")]
Download = Annotated[
    bool, typer.Option("--download", help="Allow fetching hub ids; without it nothing touches the network.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout, everything else on stderr.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")]
Reveal = Annotated[bool, typer.Option("--reveal", help="Show names, values and pages instead of masks.")]
Gate = Annotated[FailOn, typer.Option("--fail-on", help="Findings that make the command exit with 1.")]
Ocr = Annotated[
    bool, typer.Option("--ocr", help="Read the blurred pictures by OCR in the second look (needs pfl-audit[ocr]).")
]
Threshold = Annotated[
    float, typer.Option("--threshold", min=0.5, max=1.0, help="Similarity from which words count as the value.")
]
