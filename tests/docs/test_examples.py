"""The examples of ARCHITECTURE.md are accepted by the registries, CONTRIBUTING.md quotes tests/plugin, and
scripts of docs/results import what exists.
"""

from __future__ import annotations

import ast
import importlib
import sys
import warnings
from importlib.metadata import EntryPoint
from pathlib import Path
from types import ModuleType

import pytest

from pfl_audit.core.attack import ATTACKS
from pfl_audit.core.subject import SUBJECTS
from pfl_audit.documents.readers import READERS
from pfl_audit.registry import Registry
from tests.docs.pages import ROOT, blocks

IMPORTS = {
    "numpy": ("quantile",),
    "pydantic": ("Field",),
    "pfl_audit.core.attack": ("CheckSpec",),
    "pfl_audit.core.exports": ("Export",),
    "pfl_audit.core.metric": ("build_metric",),
    "pfl_audit.core.settings": ("Settings",),
    "pfl_audit.documents.corpus": ("Corpus",),
    "pfl_audit.files": ("write_text",),
    "pfl_audit.models.protocol": ("QUESTIONS",),
    "pfl_audit.models.open": ("open_model",),
}
"""Names that the examples use, and the modules that have them."""


@pytest.fixture(scope="module")
def examples() -> ModuleType:
    made = ModuleType("examples")
    made.TableInputs = object  # the example leaves it to the reader
    for module, names in IMPORTS.items():
        for name in names:
            setattr(made, name, getattr(importlib.import_module(module), name))
    for block in blocks(ROOT / "ARCHITECTURE.md"):
        if block.language == "python":
            exec("from __future__ import annotations\n" + block.text, made.__dict__)
    return made


@pytest.mark.parametrize(
    ("registry", "name"),
    [(ATTACKS, "Length"), (SUBJECTS, "Tables"), (READERS, "CsvReader")],
    ids=["attack", "subject", "reader"],
)
def test_examples_are_accepted(
    registry: Registry[object], name: str, examples: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    examples.INSTANCE = getattr(examples, name)()
    monkeypatch.setitem(sys.modules, "examples", examples)
    point = EntryPoint("example", "examples:INSTANCE", registry.group)
    monkeypatch.setattr("pfl_audit.registry.entries", lambda group: [point])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert registry.installed() == {"example": examples.INSTANCE}


def test_the_family_and_the_report_are_complete(examples: ModuleType) -> None:
    assert examples.TwinFamily().recognises({"model_type": "twin"}, frozenset())
    assert examples.TwinFamily().capabilities({}, frozenset()) == examples.QUESTIONS
    assert callable(examples.render)
    assert examples.EXPORT.text is examples.to_lines


@pytest.mark.parametrize("script", sorted((ROOT / "docs/results").glob("*.py")), ids=lambda path: path.name)
def test_scripts_import_what_exists(script: Path) -> None:
    for node in ast.walk(ast.parse(script.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("pfl_audit"):
            module = importlib.import_module(node.module or "")
            assert not [name.name for name in node.names if not hasattr(module, name.name)]


def test_the_walk_of_contributing_quotes_the_plugin() -> None:
    def plain(text: str) -> str:
        return "\n".join(line.strip() for line in text.splitlines() if line.strip())

    files = [plain(path.read_text()) for path in (ROOT / "tests/plugin/pfl_stranger").glob("*.py")]
    quoted = [plain(block.text) for block in blocks(ROOT / "CONTRIBUTING.md") if block.language == "python"]
    assert quoted
    assert not [text for text in quoted if not any(text in file for file in files)]
