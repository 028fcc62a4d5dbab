"""Options that several commands have, written once."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

import typer

from pfl_audit.cli.console import errors_as_json
from pfl_audit.core.review import Release
from pfl_audit.errors import UsageError
from pfl_audit.models.family import Precision as FloatingPoint

FailOn = Literal["leak", "weak", "never"]
_MOST_WORKERS = 256
_MOST_TOKENS = 1 << 30
_HIGHEST_SEED = 2**32 - 1 - 100
"""scikit-learn takes 32 bits, and the draws of an audit count up from the seed."""


def embedded(*parts: str) -> Path:
    """Something of what comes with the package: the folder of fixtures, or what is in it."""
    from importlib import resources

    return Path(str(resources.files("pfl_audit.fixtures"))).joinpath(*parts)


def embedded_settings(attack: str) -> dict[str, object]:
    """Settings of an attack that were tuned for the embedded models and are stored with them."""
    import json

    return json.loads(embedded(f"{attack}.json").read_text(encoding="utf-8"))


def _config(context: typer.Context, path: Path | None) -> Path | None:
    """Take defaults from a TOML file; flags win."""
    if path is not None:
        from pfl_audit.cli.config_file import take_defaults

        take_defaults(context, path)
    return path


def _target(context: typer.Context, name: str | None) -> str | None:
    """Choose one of the targets of the TOML file."""
    from pfl_audit.cli.config_file import choose_target

    choose_target(context, name)
    return name


def _as_json(value: bool) -> bool:
    """Print errors as JSON, too, where a configuration asks for it."""
    if value:
        errors_as_json(wanted=True)
    return value


Config = Annotated[
    Path | None,
    typer.Option(
        "--config", help="Settings from a TOML file; flags win.", callback=_config, is_eager=True, show_default=False
    ),
]
Target = Annotated[
    str | None,
    typer.Option("--target", help="One of the [[targets]] of --config.", callback=_target, is_eager=True),
]
Out = Annotated[
    Path | None, typer.Option("--out", help="Folder of the run.", show_default="pfl-audit-runs/<command>-<time>")
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
Device = Annotated[
    str, typer.Option("--device", help="cuda, mps, cpu, or another of torch's names; auto for the first that works.")
]
Precision = Annotated[
    FloatingPoint,
    typer.Option("--precision", help="Matrix products; a low one is compared with fp32 on a sample."),
]
BatchTokens = Annotated[
    int | None,
    typer.Option(
        "--batch-tokens",
        min=1,
        max=_MOST_TOKENS,
        help="Tokens of a batch at most; halved where memory runs out.",
        show_default="each model's own limit",
    ),
]
Workers = Annotated[
    int,
    typer.Option(
        "--workers",
        min=1,
        max=_MOST_WORKERS,
        help="Processes that compute at the same time, on each machine; each holds a copy of the models, and they "
        "share torch's threads.",
    ),
]
Cluster = Annotated[
    str | None,
    typer.Option(
        "--cluster",
        metavar="HOST:PORT|local",
        help="Compute on the machines of a Ray cluster, which are reached over the network.",
        show_default=False,
    ),
]
Shard = Annotated[
    str | None,
    typer.Option(
        "--shard",
        metavar="I/N",
        help="Only ask the I-th of N shares of the questions into --store, for 'store merge'; no results.",
        show_default=False,
    ),
]
Download = Annotated[
    bool, typer.Option("--download", help="Allow fetching hub ids; without it nothing touches the network.")
]
AsPublished = Annotated[
    bool,
    typer.Option(
        "--as-published",
        help="Take the papers' values of settings that you do not state, where ours differ; 'pfl-audit explain NAME'.",
    ),
]
AsJson = Annotated[
    bool,
    typer.Option("--json", help="Print one JSON document on stdout, everything else on stderr.", callback=_as_json),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")]
Reveal = Annotated[bool, typer.Option("--reveal", help="Show names, values, pages and exact numbers instead of masks.")]
SmallestGroup = Annotated[
    int | None,
    typer.Option(
        "--smallest-group", help="Fewest units of privacy behind a number of a masked report.", show_default="5"
    ),
]
Released = Annotated[
    Release | None,
    typer.Option(
        "--release",
        help="Who can reach the model: everybody by questions, staff by questions, everybody with the weights. The "
        "report judges the likelihood of an attack by it.",
        show_default="not declared",
    ),
]
FailOnLevel = Annotated[FailOn, typer.Option("--fail-on", help="Findings that make the command exit with 1.")]
Require = Annotated[
    list[str] | None,
    typer.Option(
        "--require",
        help="Check or attack that has to be audited, else the command exits with 3 (repeat).",
        show_default=False,
    ),
]
Gate = Annotated[
    list[str] | None,
    typer.Option(
        "--gate",
        help="Number that has to be kept, such as 'membership.* : tpr_at_1_fpr <= 2 %' or 'guarantee.epsilon <= 8' "
        "(repeat): the upper end of its interval, or with 'on estimate' the number itself.",
        show_default=False,
    ),
]
Baseline = Annotated[
    Path | None,
    typer.Option(
        "--baseline", help="Folder of an earlier audit: only what got worse makes the command fail.", show_default=False
    ),
]
Validate = Annotated[
    bool, typer.Option("--validate", help="Check options and configuration, say which checks would run, and stop.")
]
DryRun = Annotated[
    bool,
    typer.Option("--dry-run", help="Say how many questions would be asked, with time and memory, and stop."),
]


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
