"""One self-contained HTML file for compliance reviews: nothing fetched, one script known by its hash, prints well."""

from __future__ import annotations

import base64
import hashlib
import re
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import Any

from jinja2 import Environment, StrictUndefined, select_autoescape
from jinja2.loaders import PackageLoader
from markupsafe import Markup, escape

from pfl_audit.core.gates import gate_lines
from pfl_audit.core.numbers import chance, interval, number
from pfl_audit.core.redaction import visible
from pfl_audit.core.results import Results
from pfl_audit.files import write_page
from pfl_audit.reports import charts, coverage, risk, words
from pfl_audit.reports.marks import mark_of
from pfl_audit.reports.page_one import spans
from pfl_audit.reports.pictures import Pictures
from pfl_audit.reports.view import arrange

FILE_NAME = "report.html"
_LABEL = 60
"""Letters of a label in a chart."""
_POLICY = Markup("default-src 'none'; img-src data:; style-src {}; script-src {}; base-uri 'none'; form-action 'none'")
_LONGEST = 20_000
"""Letters of a text that is put together, such as all packages with their versions."""
_OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]*")


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
    demonstration = " (embedded demonstration model)" if results.target.demonstration else ""
    return template.render(
        view=arrange(results), results=results, pictures=Pictures(folder), demonstration=demonstration
    )


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
    style, script = _ours("style.css"), _ours("sort.js")
    environment.globals |= {
        "style": style,
        "script": script,
        "policy": _POLICY.format(_source(style), _source(script)),
        "words": words,
        "risk": risk,
        "coverage": coverage,
        "geometry": charts,
        "mark_of": mark_of,
    }
    environment.filters |= {
        "number": number,
        "slice": words.slice_name,
        "interval": interval,
        "chance": chance,
        "shortened": _shortened,
        "gate_lines": gate_lines,
        "spans": spans,
        "options": _options,
    }
    return environment


def _ours(name: str) -> Markup:
    """A file of this package as it is."""
    text = resources.files("pfl_audit.reports").joinpath("templates", name).read_text(encoding="utf-8")
    return Markup(text)  # noqa: S704 - our own file


def _source(text: str) -> Markup:
    """Source expression of a content security policy for an inline text."""
    digest = hashlib.sha256(text.encode()).digest()
    return Markup(f"'sha256-{base64.b64encode(digest).decode()}'")  # noqa: S704 - base64 needs no escaping


def _shortened(text: str) -> str:
    """A label that fits below a chart."""
    return text if len(text) <= _LABEL else f"{text[: _LABEL - 1]}…"


def _options(text: str) -> Markup:
    """A text in which no line ends inside the name of an option."""
    return Markup(_OPTION.sub(r'<span class="option">\g<0></span>', str(escape(_one_line(text)))))  # noqa: S704


def _one_line(value: Any) -> Any:
    """What a template prints, without anything that changes how the text around it is read."""
    if value is None or isinstance(value, Markup | bool | int | float):
        return value
    return visible(str(value), _LONGEST)
