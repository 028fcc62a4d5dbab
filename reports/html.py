"""One self-contained HTML file for compliance reviews: no script, nothing fetched, prints well."""

from __future__ import annotations

from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import Any

from jinja2 import Environment, StrictUndefined, select_autoescape
from jinja2.loaders import PackageLoader
from markupsafe import Markup

from pfl_audit.core.gate_text import gate_lines
from pfl_audit.core.numbers import chance, interval, number
from pfl_audit.core.redaction import visible
from pfl_audit.core.results import Results
from pfl_audit.files import write_page
from pfl_audit.reports import words
from pfl_audit.reports.pictures import Pictures
from pfl_audit.reports.view import arrange

FILE_NAME = "report.html"
_LONGEST = 20_000
"""Letters of a text that is put together, such as all packages with their versions."""


def render(results: Results, folder: Path) -> Path:
    """Write ``report.html`` into a run's folder, readable by its owner only.

    Args:
        results: Results of the audit. Every text of it is treated as hostile and escaped.
        folder: Folder of the run; pictures of the evidence are taken from there and put into the file.

    Returns:
        Path of the report.
    """
    path = folder / FILE_NAME
    write_page(path, to_html(results, folder))
    return path


def to_html(results: Results, folder: Path) -> str:
    """The report as text."""
    template = environment().get_template("report.html.j2")
    return template.render(view=arrange(results), results=results, pictures=Pictures(folder))


@lru_cache(maxsize=1)
def environment() -> Environment:
    """Templates that escape everything and stop at what they do not know."""
    environment = Environment(
        loader=PackageLoader("pfl_audit.reports"),
        autoescape=select_autoescape(default=True, default_for_string=True),
        undefined=StrictUndefined,
        finalize=_one_line,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    style = resources.files("pfl_audit.reports").joinpath("templates/style.css").read_text(encoding="utf-8")
    environment.globals |= {"style": Markup(style), "words": words}  # noqa: S704 - our own file
    environment.filters["gate_lines"] = gate_lines
    environment.filters |= {"number": number, "slice": words.slice_name, "interval": interval, "chance": chance}
    return environment


def _one_line(value: Any) -> Any:
    """What a template prints, without anything that changes how the text around it is read."""
    if value is None or isinstance(value, Markup | bool | int | float):
        return value
    return visible(str(value), _LONGEST)
