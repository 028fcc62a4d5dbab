"""``run`` and ``validate``: audits as one file in version control."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Annotated, Final

import typer

from pfl_audit.cli.config_file import read_config, targets_of
from pfl_audit.cli.console import print_json
from pfl_audit.cli.invocation import Command, call, invoke
from pfl_audit.errors import EXIT_ERROR, EXIT_FINDING, EXIT_INTERRUPTED, EXIT_NOT_AUDITED, EXIT_OK, UsageError
from pfl_audit.inputs import is_regular

File = Annotated[Path, typer.Argument(help="Configuration, with the keys that 'audit --config' takes.")]
AtOnce = Annotated[int, typer.Option("--at-once", min=1, max=256, help="Targets that are audited at the same time.")]
PASS_ON = {"allow_extra_args": True, "ignore_unknown_options": True}
"""Options that 'run' does not know are those of 'audit'."""
_INSTEAD = ("--validate", "--dry-run", "--shard")
"""Options with which no audit is run, so that there is nothing to compare."""
_WORST: Final = (0, 3, 1, 2, 4)
"""Exit codes from the best to the worst: what could not be audited, then findings, then errors."""
_CHILD = "import sys; from pfl_audit.child_process import follow; follow(int(sys.argv.pop(1))); \
sys.argv[0] = 'pfl-audit'; from pfl_audit.cli.main import main; main()"


def run(context: typer.Context, file: File, at_once: AtOnce = 1) -> None:
    """Run the audit of a file: targets, documents, checks, gates and waivers.

    Every option of 'audit' may follow and wins over the file, such as --validate, --dry-run, --json or --out.
    A file with [[targets]] is an audit of each, into a folder of its own, and a page that compares them.

    Example: pfl-audit run audit.toml --dry-run
    """
    _audit(context, file, context.args, at_once)


def validate(context: typer.Context, file: File) -> None:
    """Check the file of an audit without opening a model; options of 'audit' may follow.

    Example: pfl-audit validate audit.toml
    """
    _audit(context, file, [*context.args, "--validate"], 1)


def _audit(context: typer.Context, file: Path, more: list[str], at_once: int) -> None:
    """Run the command ``audit`` with a configuration file, once or for each of its targets."""
    command, table = context.find_root().command, read_config(file)
    targets = targets_of(file, table)
    if targets and not _given(more, "--target"):
        code = _audit_each(command, file, list(targets), more, table, at_once)
    elif at_once > 1:
        raise UsageError("--at-once means nothing for one audit", "Leave it out")
    else:
        code = call(command, ["audit", "--config", str(file), *more])
    if code:
        raise typer.Exit(code)


def _audit_each(
    command: Command, file: Path, names: list[str], more: list[str], table: Mapping[str, object], at_once: int
) -> int:
    out, more = _folder(file, more, table)
    as_json, instead = "--json" in more, any(_given(more, name) for name in _INSTEAD)
    shared = _given(more, "--shard")  # its stores are all that is written
    audits = {
        name: ["audit", "--config", str(file), "--target", name, *more, *([] if shared else ["--out", str(out / name)])]
        for name in names
    }
    ended: dict[str, Ended] = {}
    if at_once > 1 or as_json:
        ended = Children(at_once).audit(audits, show=not as_json)
    else:
        for name, arguments in audits.items():
            print(f"target {name}", file=sys.stderr, flush=True)
            ended[name] = Ended(invoke(command, arguments))
            if ended[name].code == EXIT_INTERRUPTED:
                return EXIT_INTERRUPTED
    page = None if instead else _compared(out, ended, show=not (as_json or "-q" in more or "--quiet" in more))
    if as_json:
        found = {name: {"exit_code": one.code, "printed": _parsed(one.told)} for name, one in ended.items()}
        print_json({"targets": found, "comparison": str(page) if page else None})
    return worst([one.code for one in ended.values()])


def _given(options: list[str], name: str) -> bool:
    """Whether an option is among others, as one argument or as two."""
    return any(option.partition("=")[0] == name for option in options)


def _folder(file: Path, more: list[str], table: Mapping[str, object]) -> tuple[Path, list[str]]:
    """Folder of all targets, and the options without it."""
    rest, given = list[str](), table.get("out")
    options = iter(more)
    for option in options:
        if option == "--out":
            given = next(options, None)
        elif option.startswith("--out="):
            given = option.removeprefix("--out=")
        else:
            rest.append(option)
    if not isinstance(given, str):
        raise UsageError(f"{file} has several targets, and no folder for them", "Set 'out' in it, or give --out")
    return Path(given), rest


def _compared(out: Path, ended: Mapping[str, Ended], *, show: bool) -> Path | None:
    """Write the page that compares the audits that gave results; None where there are fewer than two."""
    from pfl_audit.cli.summary import show_comparison
    from pfl_audit.core.comparison import compare
    from pfl_audit.core.renderers import render_comparison
    from pfl_audit.core.results import FILE_NAME, read_results

    codes = (EXIT_OK, EXIT_FINDING, EXIT_NOT_AUDITED)
    done = [out / name for name, one in ended.items() if one.code in codes and is_regular(out / name / FILE_NAME)]
    if len(done) < 2:
        return None
    comparison = compare([(read_results(run), run) for run in done])
    pages = render_comparison(comparison, out / "comparison.html")
    if show:
        show_comparison(comparison, pages)
    return pages[0] if pages else None


@dataclass(frozen=True)
class Ended:
    """How the audit of a target ended.

    Attributes:
        code: Exit code.
        told: Standard output, where it was kept; else empty.
    """

    code: int
    told: str = ""


class Children:
    """Audits of targets in processes of their own, which end with this one."""

    def __init__(self, at_once: int) -> None:
        self._at_once = at_once
        self._running: set[subprocess.Popen[str]] = set()
        self._lock = threading.Lock()
        self._stopped = False

    def audit(self, audits: Mapping[str, Sequence[str]], *, show: bool) -> dict[str, Ended]:
        """Audit all targets, some of them at the same time.

        Args:
            audits: Target to the arguments of ``pfl-audit``.
            show: Whether what an audit prints is shown when it has ended.
        """

        def one(name: str) -> Ended:
            ended = self._audit(name, audits[name])
            if show:
                print(f"target {name}\n{ended.told}", flush=True)
            return ended

        with ThreadPoolExecutor(self._at_once) as pool:
            try:
                return dict(zip(audits, pool.map(one, audits), strict=True))
            except BaseException:
                self._stop()
                raise

    def _audit(self, name: str, arguments: Sequence[str]) -> Ended:
        threads = max(1, (os.cpu_count() or 1) // self._at_once)
        environment = {"OMP_NUM_THREADS": str(threads)} | os.environ
        with self._lock:
            if self._stopped:
                return Ended(EXIT_INTERRUPTED)
            # -P: a module in the untrusted working folder must not shadow a real one.
            child = subprocess.Popen(  # noqa: S603 - our own interpreter
                [sys.executable, "-P", "-c", _CHILD, str(os.getpid()), *arguments],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                env=environment,
            )
            self._running.add(child)
        progress = threading.Thread(target=_pass_on, args=(name, child.stderr))
        progress.start()
        told = child.stdout.read() if child.stdout is not None else ""
        child.wait()
        progress.join()
        with self._lock:
            self._running.discard(child)
        return Ended(child.returncode if child.returncode in (*_WORST, EXIT_INTERRUPTED) else EXIT_ERROR, told)

    def _stop(self) -> None:
        with self._lock:
            self._stopped = True
            for child in self._running:
                child.kill()


def _pass_on(name: str, lines: IO[str] | None) -> None:
    """Print the progress and errors of an audit with its target in front."""
    for line in lines or ():
        print(f"{name}: {line}", end="", file=sys.stderr, flush=True)


def worst(codes: Sequence[int]) -> int:
    """The exit code of several audits."""
    return EXIT_INTERRUPTED if EXIT_INTERRUPTED in codes else max(codes, key=_WORST.index, default=0)


def _parsed(text: str) -> object:
    """What an audit printed as JSON; None where it is none."""
    try:
        return json.loads(text)
    except ValueError:
        return None
