"""One self-contained HTML file for compliance reviews: no script, nothing fetched, prints well."""

from __future__ import annotations

import base64
from functools import lru_cache
from importlib import resources
from pathlib import Path

from jinja2 import Environment, StrictUndefined, select_autoescape
from jinja2.loaders import PackageLoader
from markupsafe import Markup
from pfl_audit.reports import figures, words
from pfl_audit.reports.view import arrange

from pfl_audit.audit.numbers import chance, interval, number
from pfl_audit.audit.results import Results
from pfl_audit.files import write_text

FILE_NAME = "report.html"
_PICTURES = {".jpg": "image/jpeg", ".png": "image/png"}
_LARGEST_PICTURE = 4 << 20


def render(results: Results, folder: Path) -> Path:
    """Write ``report.html`` into a run's folder, readable by its owner only.

    Args:
        results: What is reported. Every text of it is treated as hostile and escaped.
        folder: Of the run; pictures of the evidence are taken from there and put into the file.

    Returns:
        Path of the report.
    """
    path = folder / FILE_NAME
    write_text(path, to_html(results, folder))
    return path


def to_html(results: Results, folder: Path) -> str:
    """The report as text."""
    template = environment().get_template("report.html.j2")
    style = resources.files("pfl_audit.reports").joinpath("templates/style.css").read_text(encoding="utf-8")
    return template.render(
        view=arrange(results),
        results=results,
        style=Markup(style),  # noqa: S704 - our own file
        picture=lambda name: _picture(folder, name),
        curve=lambda curve: _svg(figures.draw_curve(curve)),
        overview=lambda checks: _svg(figures.draw_overview(checks)),
        words=words,
    )


@lru_cache(maxsize=1)
def environment() -> Environment:
    """Templates that escape everything and stop at what they do not know."""
    environment = Environment(
        loader=PackageLoader("pfl_audit.reports"),
        autoescape=select_autoescape(default=True, default_for_string=True),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"number": number, "slice": words.slice_name, "interval": interval, "chance": chance}
    return environment


def _svg(drawing: str) -> str:
    """A drawing as a data address: as an image it can neither run scripts nor be styled from outside."""
    return "data:image/svg+xml;base64," + base64.b64encode(drawing.encode()).decode()


def _picture(folder: Path, name: str) -> str | None:
    """A picture of the run as a data address; nothing outside of the folder is ever read."""
    path = (folder / name).resolve()
    kind = _PICTURES.get(path.suffix)
    if kind is None or not path.is_relative_to(folder.resolve()) or not path.is_file():
        return None
    if path.stat().st_size > _LARGEST_PICTURE:
        return None
    return f"data:{kind};base64,{base64.b64encode(path.read_bytes()).decode()}"
