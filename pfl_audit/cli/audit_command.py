"""Commands that audit: their options come from subjects and attacks, and one function runs them all."""

from __future__ import annotations

import inspect
import shlex
import sys
import tomllib
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from pfl_audit.api import run_folder, shared_store
from pfl_audit.cli import options
from pfl_audit.cli.config_file import CHOSEN, META, PUBLISHED, WAIVERS
from pfl_audit.cli.console import make_progress, print_json
from pfl_audit.cli.outputs import Outputs, output_parameters, outputs_of
from pfl_audit.cli.settings_options import Options, keyword, with_parameters
from pfl_audit.errors import UsageError
from pfl_audit.models.family import Precision
from pfl_audit.registry import ExtensionWarning, Registry

if TYPE_CHECKING:
    from pfl_audit.core.plan import AuditPlan
    from pfl_audit.core.results import Results
    from pfl_audit.core.review import Release

Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        help="Setting of an attack or input of a subject, as NAME.key=value (repeat); see 'pfl-audit explain NAME'.",
        show_default=False,
    ),
]


_ALIKE: Final = (
    "seed", "reveal", "smallest_group", "as_published", "release", "config", "device", "precision", "batch_tokens",
    "workers", "cluster",
)  # fmt: skip
"""What options, requests and plans have under one name."""


@dataclass
class Request:
    """What the user asked for.

    Attributes:
        model: Checkpoint under audit, or None.
        inputs: Subject to its inputs.
        settings: Attack to its settings.
        choice: Values of the options that are the command's own.
        checks: Ids of checks or names of attacks; empty for all.
        named: Those of them that the user named; all if None.
        seed: Seed of all random draws.
        reveal: Whether names, values and exact numbers are shown.
        smallest_group: Fewest units behind a number of a masked report, or None.
        as_json: Whether results are printed as JSON.
        quiet: Whether no progress is shown.
        preview: Whether the audit is only looked at, or shared out (--validate, --dry-run, --shard).
        as_published: Whether settings that are not given take the papers' values.
        release: Who can reach the model, as the user declares; None where it is not declared.
        config: Configuration file, or None.
        out: Folder of the run, or None.
        store: Response store, or None.
        device: torch's name of the device.
        precision: Floating-point type of the models' matrix products.
        batch_tokens: Largest number of tokens in a batch, or None.
        workers: Processes that compute at the same time.
        cluster: Ray cluster whose machines compute, or None.
    """

    model: str | None
    inputs: dict[str, dict[str, object]]
    settings: dict[str, dict[str, object]]
    choice: Mapping[str, object]
    checks: tuple[str, ...] = ()
    named: tuple[str, ...] | None = None
    seed: int = 0
    reveal: bool = False
    smallest_group: int | None = None
    as_json: bool = False
    quiet: bool = False
    preview: bool = False
    as_published: bool = False
    release: Release | None = None
    config: Path | None = None
    out: Path | None = None
    store: Path | None = None
    device: str = "cpu"
    precision: Precision = "fp32"
    batch_tokens: int | None = None
    workers: int = 1
    cluster: str | None = None


Prepare = Callable[[Request], bool]
"""Completes a request in place; False where the command is done already and nothing is audited."""


@dataclass(frozen=True)
class AuditCommand:
    """A command that audits, found by the entry point ``pfl_audit.commands``.

    Attributes:
        help: Help text; its first line is the summary.
        inputs: Options for the inputs of subjects.
        settings: Options for the settings of attacks.
        choice: Options of the command's own, or None.
        prepare: Completes the request.
        model_default: Text that help shows for a model that is not given.
        download: Whether hub ids are allowed.
        gate: Whether findings decide the exit code.
    """

    name: str
    title: str
    help: str
    inputs: tuple[Options, ...]
    prepare: Prepare
    settings: tuple[Options, ...] = ()
    choice: Options | None = None
    model_default: str | None = None
    download: bool = False
    gate: bool = True

    def function(self) -> Callable[..., None]:
        """The function that typer makes a command of."""

        def command(context: typer.Context, **given: object) -> None:
            run_command(self, context, given)

        groups = (*self.inputs, *((self.choice,) if self.choice else ()), *self.settings)
        parameters = [
            self._model(),
            *(parameter for group in groups for parameter in group.parameters()),
            *_shared(download=self.download, gate=self.gate, owners=frozenset(group.owner for group in self.inputs)),
            *(output_parameters() if self.gate else ()),
        ]
        command.__doc__ = self.help
        return with_parameters(command, parameters)

    def _model(self) -> inspect.Parameter:
        option = typer.Option(
            "--model",
            help="Checkpoint under audit: a local folder"
            + (", or a hub id with --download." if self.download else "."),
            show_default=self.model_default or False,
        )
        return keyword("model", Annotated[str | None, option], None)


COMMANDS: Registry[AuditCommand] = Registry("pfl_audit.commands", "command", ("name", "function"))


def register(app: typer.Typer, command: AuditCommand) -> None:
    """Add a command to the command line; one whose options cannot be made is left out with a warning."""
    try:
        function = command.function()
    except Exception as error:  # whatever the settings of a stranger's package raise
        reason = f"the command '{command.name}' is left out: {type(error).__name__}: {error!s:.200}"
        warnings.warn(reason, ExtensionWarning, stacklevel=2)
        return
    app.command(command.name)(function)


def run_command(command: AuditCommand, context: typer.Context, given: Mapping[str, Any]) -> None:
    """Read the options of a command and audit."""
    from pfl_audit.cli.preview import refuse_outputs, show_estimate, show_share, show_validated
    from pfl_audit.core.plan import AuditPlan
    from pfl_audit.core.published import read_published
    from pfl_audit.core.sharding import read_share
    from pfl_audit.core.waivers import read_waivers

    tables: dict[str, Any] = context.meta.get(META, {})
    if (target := given.get("target")) is not None and context.meta.get(CHOSEN) != target:
        raise UsageError(f"--target {target:.100} is none of a file's [[targets]]", "Give --config FILE with it")
    if given.get("shard") is not None:
        refuse_outputs(context)
    request, waivers = request_of(command, context, given), read_waivers(tables.get(WAIVERS, ()))
    if not command.prepare(request):
        return
    plan = AuditPlan(
        title=command.title,
        out=run_folder(request.out, command.name),
        model=request.model,
        inputs=request.inputs,
        checks=request.checks,
        named=request.named,
        settings=request.settings,
        store=request.store or shared_store(request.out),
        download=given.get("download", False),
        fail_on=given["fail_on"],
        require=tuple(given["require"] or ()),
        gates=tuple(given["gate"] or ()),
        waivers=waivers,
        published=read_published(tables.get(PUBLISHED, ())),
        baseline=given["baseline"],
        command=command_line(),
        **{name: getattr(request, name) for name in _ALIKE},
    )
    if given.get("validate"):
        show_validated(plan, as_json=request.as_json)
    elif given.get("shard") is not None:
        show_share(
            replace(plan, store=request.store, share=read_share(given["shard"])),
            as_json=request.as_json,
            quiet=request.quiet,
        )
    elif given.get("dry_run"):
        show_estimate(plan, as_json=request.as_json, quiet=request.quiet)
    else:
        outputs = outputs_of(given)
        run_and_show(plan, as_json=request.as_json, quiet=request.quiet, outputs=outputs)


def request_of(command: AuditCommand, context: typer.Context, given: Mapping[str, Any]) -> Request:
    """What the user asked for: configuration file, then flags, then ``--set``."""
    from pfl_audit.core.subject import SUBJECTS

    tables: dict[str, Any] = context.meta.get(META, {})
    inputs = {name: dict(values) for name, values in tables.get("subjects", {}).items()}
    settings = {name: dict(values) for name, values in tables.get("attacks", {}).items()}
    for target, groups in ((inputs, command.inputs), (settings, command.settings)):
        for group in groups:
            if found := group.given(context, given):
                target.setdefault(group.owner, {}).update(found)
    for text in given["set_"] or ():
        owner, key, value = parse_set(text)
        kind = inputs if owner in SUBJECTS.installed() else settings
        kind.setdefault(owner, {})[key] = value
    return Request(
        model=given["model"],
        inputs=inputs,
        settings=settings,
        choice=command.choice.given(context, given) if command.choice else {},
        preview=any(given.get(name) for name in ("validate", "dry_run", "shard")),
        **{name: given[name] for name in ("as_json", "quiet", "out", "store", *_ALIKE) if name in given},
    )


def parse_set(text: str) -> tuple[str, str, object]:
    """Owner, key and value of ``NAME.key=value``; a value is TOML, or plain text where it is not.

    Raises:
        UsageError: The text has another form.
    """
    name, equals, value = text.partition("=")
    owner, dot, key = name.strip().partition(".")
    if not (equals and dot and owner and key):
        raise UsageError(f"--set {text:.80} is not of the form NAME.key=value", "Write --set membership.seeds=3")
    try:
        return owner, key, tomllib.loads(f"value = {value}")["value"]
    except (ValueError, RecursionError):
        return owner, key, value.strip()


def run_and_show(
    plan: AuditPlan,
    *,
    as_json: bool,
    quiet: bool,
    gate: bool = True,
    show: bool = True,
    ready: Callable[[], None] | None = None,
    outputs: Outputs | None = None,
) -> Results:
    """Run an audit, render the reports, show the verdict, and leave with the right exit code.

    Args:
        plan: What to audit, and how.
        as_json: Whether results.json is printed in place of the verdict.
        quiet: Whether no progress is shown.
        gate: Whether findings decide the exit code.
        show: Whether the verdict is printed.
        ready: As of `run_audit`.
        outputs: Further files to write.
    """
    from pfl_audit.api import render
    from pfl_audit.cli.summary import show_verdict
    from pfl_audit.core.audit_verdict import exit_code
    from pfl_audit.core.runner import run_audit

    results = run_audit(plan, make_progress(quiet=quiet), ready)
    reports = render(results, plan.out)
    if outputs is not None:
        reports = [*reports, *outputs.write(results, plan.out, reports)]
    if as_json:
        print_json(results.model_dump(mode="json"))
    elif show:
        show_verdict(results, plan.out, reports)
    if gate and (code := exit_code(results.verdict)):
        raise typer.Exit(code)
    return results


def command_line() -> str:
    """The command line, quoted for a shell, for the report."""
    return shlex.join(["pfl-audit", *sys.argv[1:]])


def _shared(*, download: bool, gate: bool, owners: frozenset[str]) -> list[inspect.Parameter]:
    """Options that every audit has."""
    asks, computes = bool(owners & {"questions", "forms"}), bool(owners & {"questions", "forms", "gradients"})
    offered: tuple[tuple[bool, str, object, object], ...] = (
        (True, "set_", Set, None),
        (gate, "as_published", options.AsPublished, False),
        (True, "out", options.Out, None),
        (True, "store", options.Store, None),
        (True, "seed", options.Seed, 0),
        (True, "device", options.Device, "cpu"),
        (computes, "workers", options.Workers, 1),
        (computes, "cluster", options.Cluster, None),
        ("questions" in owners, "shard", options.Shard, None),
        (download, "download", options.Download, False),
        (asks, "batch_tokens", options.BatchTokens, None),
        (True, "precision", options.Precision, "fp32"),
        (gate, "fail_on", options.FailOnLevel, "leak"),
        (gate, "require", options.Require, None),
        (gate, "gate", options.Gate, None),
        (gate, "baseline", options.Baseline, None),
        (gate, "validate", options.Validate, False),
        (gate, "dry_run", options.DryRun, False),
        (True, "reveal", options.Reveal, False),
        (True, "smallest_group", options.SmallestGroup, None),
        (True, "release", options.Released, None),
        (True, "as_json", options.AsJson, False),
        (True, "quiet", options.Quiet, False),
        (True, "config", options.Config, None),
        (download, "target", options.Target, None),
    )
    return [keyword(name, kind, default) for wanted, name, kind, default in offered if wanted]
