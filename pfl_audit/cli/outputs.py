"""Files of an audit beside its run: exports, PDF, dossier, and the summary of a GitHub job."""

from __future__ import annotations

import inspect
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from pfl_audit.cli.settings_options import keyword
from pfl_audit.core.exports import EXPORTS
from pfl_audit.errors import UsageError

if TYPE_CHECKING:
    from pfl_audit.core.results import Results

_GITHUB: Final = "GITHUB_STEP_SUMMARY"
_PANEL: Final = "Files for other tools"
_PREFIX: Final = "export__"


@dataclass(frozen=True)
class Outputs:
    """Files that the user asked for.

    Attributes:
        exports: Name of an export to its file.
        pdf: PDF of the report, or None.
        dossier: Folder of the dossier, or None.
        summary: File of the job's summary, or None.
    """

    exports: Mapping[str, Path] = field(default_factory=dict)
    pdf: Path | None = None
    dossier: Path | None = None
    summary: Path | None = None

    def write(self, results: Results, folder: Path, reports: Sequence[Path]) -> list[Path]:
        """Write the files.

        Args:
            results: Results of the audit.
            folder: Folder of the run.
            reports: Reports that were rendered into it.

        Raises:
            AuditError: A file cannot be written, or there is no browser for the PDF.
        """
        from pfl_audit.core.exports import write_exports

        written = write_exports(results, self.exports)
        if self.summary is not None:
            _append(self.summary, EXPORTS.named("summary").text(results))
        if self.pdf is not None:
            from pfl_audit.core.pdf import print_pdf

            pages = [path for path in reports if path.suffix == ".html"]
            if not pages:
                raise UsageError("there is no HTML report to print", "Leave out --pdf")
            written.append(print_pdf(pages[0], self.pdf))
        if self.dossier is not None:
            from pfl_audit.core.dossier import write_dossier

            written.append(write_dossier(results, folder, [*reports, *written], self.dossier))
        return written


def output_parameters() -> list[inspect.Parameter]:
    """Options for the files: one for each installed export, and ours."""

    def path(name: str, option: str, text: str) -> inspect.Parameter:
        made = typer.Option(option, help=text, show_default=False, rich_help_panel=_PANEL)
        return keyword(name, Annotated[Path | None, made], None)

    return [
        *(path(_parameter(name), f"--{name}", export.help) for name, export in EXPORTS.installed().items()),
        path("pdf", "--pdf", "The report as PDF, printed by a headless browser."),
        path("dossier", "--dossier", "New folder with report, results, configuration and a manifest of SHA-256 sums."),
        keyword(
            "github_summary",
            Annotated[
                bool,
                typer.Option(
                    "--github-summary", help=f"Add the summary to the GitHub job ({_GITHUB}).", rich_help_panel=_PANEL
                ),
            ],
            False,
        ),
    ]


def outputs_of(given: Mapping[str, Any]) -> Outputs:
    """The files that the options ask for.

    Raises:
        UsageError: There is no GitHub job, no browser for the PDF, two files have one name, or the dossier's folder is
            not new.
    """
    from pfl_audit.core.pdf import find_browser
    from pfl_audit.files import require_new

    if given.get("pdf") is not None:
        find_browser()  # before an audit that may take hours
    summary = os.environ.get(_GITHUB)
    if given.get("github_summary") and not summary:
        raise UsageError(f"{_GITHUB} is not set", "Give --github-summary in a GitHub job, or --summary FILE")
    if (dossier := given.get("dossier")) is not None:
        require_new(dossier)
    exports = {name: given[_parameter(name)] for name in EXPORTS.installed() if given.get(_parameter(name))}
    files = [*exports.values(), *([given["pdf"]] if given.get("pdf") is not None else [])]
    if len({file.absolute() for file in files}) < len(files):
        raise UsageError("two files for other tools have one name", "Name each differently")
    return Outputs(
        exports=exports,
        pdf=given.get("pdf"),
        dossier=dossier,
        summary=Path(summary) if given.get("github_summary") and summary else None,
    )


def _parameter(name: str) -> str:
    return f"{_PREFIX}{name.replace('-', '_')}"


def _append(path: Path, text: str) -> None:
    from pfl_audit.files import cannot_write

    try:
        with path.open("a", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise cannot_write(path, error) from error
