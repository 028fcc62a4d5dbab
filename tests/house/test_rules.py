"""The house rules, as far as a machine can see them."""

import ast
import os
import shutil
import subprocess
import sys
import tomllib
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCES = [path for room in ("pfl_audit", "attacks", "reports", "fixtures") for path in (ROOT / room).rglob("*.py")]


@cache
def imports(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{name.name}" for name in node.names)}
    return found


def test_the_core_imports_neither_attacks_nor_reports() -> None:
    rooms = ("pfl_audit.attacks", "pfl_audit.reports", "attacks", "reports")
    below = tuple(f"{room}." for room in rooms)
    core = [path for path in SOURCES if "pfl_audit" in path.relative_to(ROOT).parts[0]]
    assert len(core) > 100
    assert not [(path, name) for path in core for name in imports(path) if name in rooms or name.startswith(below)]


def test_modules_form_no_circle_of_imports() -> None:
    """Imports inside functions and those for types alone count as well; the rooms of attacks are not looked at."""
    paths = [path for path in SOURCES if path.relative_to(ROOT).parts[0] != "attacks"]
    names = {path: ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__") for path in paths}
    known = {name if name.startswith("pfl_audit") else f"pfl_audit.{name}": path for path, name in names.items()}
    left = {name: (imports(path) & known.keys()) - {name} for name, path in known.items()}
    left = {name: found - {"pfl_audit"} for name, found in left.items()}  # which imports its interface when it is used
    while ends := [name for name, found in left.items() if not found & left.keys()]:
        for name in ends:
            del left[name]
    assert not left


def test_metrics_do_no_input_or_output() -> None:
    for path in (ROOT / "pfl_audit/metrics").glob("*.py"):
        assert not {"pathlib", "os", "io", "torch"} & {name.split(".")[0] for name in imports(path)}


def test_one_module_imports_what_would_call_home() -> None:
    """onnxruntime has telemetry, and only ``open_rapidocr`` switches it off first."""
    tests = (ROOT / "tests").rglob("*.py")
    found = {path.name for path in (*SOURCES, *tests) if {"rapidocr", "onnxruntime"} & imports(path)}
    assert found == {"rapid_ocr.py"}


def test_one_module_imports_ray() -> None:
    """Which opens ports: for ``--cluster`` alone."""
    assert {path.name for path in SOURCES if any(name.split(".")[0] == "ray" for name in imports(path))} == {
        "cluster.py"
    }


def test_files_are_small() -> None:
    files = [*SOURCES, *(ROOT / "tests").rglob("*.py")]
    assert len(files) > 1000
    assert not [path for path in files if len(path.read_text().splitlines()) > 400]


def test_every_package_is_installed() -> None:
    listed = set(tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"])
    found = set()
    for init in {path.parent for path in SOURCES if path.name == "__init__.py"}:
        name = ".".join(init.relative_to(ROOT).parts)
        found.add(name if name.startswith("pfl_audit") else f"pfl_audit.{name}")
    assert listed == found


def test_every_attack_has_a_page_in_the_docs() -> None:
    for name in tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]["pfl_audit.attacks"]:
        text = (ROOT / f"docs/{name}.md").read_text()
        for heading in ("Threat model", "What it needs", "What the numbers mean", "What to do", "Sources"):
            assert f"## {heading}" in text, f"docs/{name}.md lacks '{heading}'"


def test_nothing_is_left_for_later() -> None:
    words = ("TO" + "DO", "FIX" + "ME", "NotImplemented" + "Error")
    for path in SOURCES:
        assert not [word for word in words if word in path.read_text()], path


def test_a_copy_runs_its_own_code(tmp_path: Path) -> None:
    """Whoever edits an attack in a copy or a second worktree measures the edited one."""
    names = subprocess.run(
        ["git", "ls-files", "*.py", "pfl_audit/attacks"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    for name in names.stdout.split():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name, follow_symlinks=False)
    found = subprocess.run(
        [sys.executable, "-c", "import pfl_audit.attacks.membership as it; print(it.__file__)"],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert Path(found.stdout.strip()).resolve() == (tmp_path / "attacks/membership/__init__.py").resolve()
