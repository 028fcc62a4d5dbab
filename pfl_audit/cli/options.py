"""Options that several commands have, written once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from pfl_audit.errors import UsageError

FailOn = Literal["leak", "weak", "never"]
_HIGHEST_SEED = 2**32 - 1 - 100
"""scikit-learn takes 32 bits, and the draws of an audit count up from the seed."""


def embedded(*parts: str) -> Path:
    """Something of what comes with the package: the folder of fixtures, or what is in it."""
    from importlib import resources

    return Path(str(resources.files("pfl_audit.fixtures"))).joinpath(*parts)


def _config(context: typer.Context, path: Path | None) -> Path | None:
    """Take defaults from a TOML file: keys that stand alone, then ``[data]``, then ``[data.make]``.

    Flags win, unknown keys are errors.
    """
    if path is None:
        return None
    import tomllib

    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} cannot be read", "Check --config") from error
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{path} is not valid TOML: {error}", "Correct it") from error
    known = _settings(context)
    steps: list[Any] = [context]
    while steps[0].parent is not None:
        steps.insert(0, steps[0].parent)
    command = " ".join(step.info_name or "" for step in steps[1:])
    values: dict[str, Any] = {}
    prefix = ""
    for step, below in zip(steps, [*steps[1:], None], strict=True):
        commands = getattr(step.command, "commands", {})
        for key, value in table.items():
            if key in commands and isinstance(value, dict):
                continue
            parameter = known.get(key.replace("_", "-"))
            if parameter is None or parameter.name is None:
                raise UsageError(
                    f"{path}: there is no setting '{prefix}{key}' of {command}",
                    f"'pfl-audit {command} --help' lists them",
                )
            repeatable = getattr(parameter, "multiple", False)
            if isinstance(value, dict) or (isinstance(value, list) and not repeatable):
                flag = f"--{key.replace('_', '-')}"
                raise UsageError(f"{path}: {flag} takes one value", f"'pfl-audit {command} --help' lists them")
            values[parameter.name] = [value] if repeatable and not isinstance(value, list) else value
        if below is not None:
            table = found if isinstance(found := table.get(below.info_name or ""), dict) else {}
            prefix += f"{below.info_name}."
    context.default_map = {**(context.default_map or {}), **values}
    return path


def _settings(context: typer.Context) -> dict[str, Any]:
    """Name of the flag, or of the argument, to its parameter."""
    known: dict[str, Any] = {}
    for parameter in context.command.params:
        flags = [flag.removeprefix("--") for flag in parameter.opts if flag.startswith("--")]
        known |= dict.fromkeys(flags or [str(parameter.name)], parameter)
    return {name: parameter for name, parameter in known.items() if name not in ("config", "help")}


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
Seed = Annotated[int, typer.Option("--seed", min=0, max=_HIGHEST_SEED, help="Seed of everything that is drawn.")]
Device = Annotated[str, typer.Option("--device", help="torch's name of the device.")]
Download = Annotated[
    bool, typer.Option("--download", help="Allow fetching hub ids; without it nothing touches the network.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout, everything else on stderr.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")]
Reveal = Annotated[bool, typer.Option("--reveal", help="Show names, values and pages instead of masks.")]
Gate = Annotated[FailOn, typer.Option("--fail-on", help="Findings that make the command exit with 1.")]
Ocr = Annotated[bool, typer.Option("--ocr", help="Read the blurred pictures by OCR in the second look.")]
Threshold = Annotated[
    float, typer.Option("--threshold", min=0.5, max=1.0, help="Similarity from which words count as the value.")
]
