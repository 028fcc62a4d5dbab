"""Table of licences in ``docs/licences.md``: ``python -m tests.docs.licences`` writes it from what is installed."""

from __future__ import annotations

import re
import tomllib
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/licences.md"
BEGIN, END = "<!-- licences: python -m tests.docs.licences -->", "<!-- end of licences -->"
ABSENT = "not installed where this page was made"


def direct() -> dict[str, str]:
    """Package to the extra that asks for it, ``-`` for those that are always needed; the extra dev is left out."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    asked = {extra: texts for extra, texts in project["optional-dependencies"].items() if extra != "dev"}
    every = {**asked, "-": project["dependencies"]}
    return {canonicalize_name(Requirement(text).name): extra for extra, texts in every.items() for text in texts}


def packages() -> dict[str, str]:
    """Package to who asks for it: what the container installs, and what extras ask for."""
    lock = re.findall(r"^([\w.-]+)==", (ROOT / "requirements.lock").read_text(), re.MULTILINE)
    return dict(sorted({**dict.fromkeys(map(canonicalize_name, lock), "others"), **direct()}.items()))


def licence(name: str) -> str:
    """Licence of an installed package: SPDX expression, classifiers, free text, or the head of its licence file."""
    try:
        package = distribution(name)
    except PackageNotFoundError:
        return ABSENT
    found = package.metadata
    said = found.get_all("Classifier") or []
    classes = [one.rpartition(" :: ")[2] for one in said if one.startswith("License :: ") and one.count(" :: ") > 1]
    files = [file for file in package.files or () if file.name.upper().startswith(("LICENSE", "LICENCE"))]
    text = found.get("License") or (files[0].read_text() if files else "")
    return str(found.get("License-Expression") or "; ".join(classes) or text.strip().partition("\n")[0] or "not stated")


def table() -> list[str]:
    """Rows of the table."""
    rows = [f"| {name} | {asks} | {licence(name)} |" for name, asks in packages().items()]
    return ["| package | asked for by | licence, as the package states it |", "| --- | --- | --- |", *rows]


def written() -> list[str]:
    """Rows of the page."""
    return PAGE.read_text().partition(BEGIN)[2].partition(END)[0].strip().splitlines()


if __name__ == "__main__":
    head, _, rest = PAGE.read_text().partition(BEGIN)
    PAGE.write_text(f"{head}{BEGIN}\n\n" + "\n".join(table()) + f"\n\n{END}{rest.partition(END)[2]}")
