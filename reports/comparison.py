"""Audits side by side, as one self-contained HTML file."""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import quote

from pfl_audit.core.comparison import Comparison
from pfl_audit.files import write_page
from pfl_audit.reports.html import FILE_NAME, environment


def render(comparison: Comparison, path: Path) -> Path:
    """Write the comparison, readable by its owner only, and return its path."""
    write_page(path, to_html(comparison, path.parent))
    return path


def to_html(comparison: Comparison, folder: Path) -> str:
    """The comparison as text; reports are linked relative to ``folder``."""
    template = environment().get_template("comparison.html.j2")
    return template.render(
        comparison=comparison,
        link=lambda run: quote(os.fsencode(Path(os.path.relpath(run / FILE_NAME, folder)).as_posix())),
    )
