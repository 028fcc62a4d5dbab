"""Counts of the product's source: lines of code, statements, and imports between its modules."""

from __future__ import annotations

import ast
import subprocess
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Literal

ROOT = Path(__file__).parents[2]
_NO_PRODUCT = ("docs", "tests", ".ci", ".github")
_LINKED = ("attacks", "reports", "fixtures")
"""Folders at the top that install below ``pfl_audit``."""

When = Literal["top", "late", "type"]
"""An import at the top of a module, inside a function, or for type checkers alone."""
Arrows = Mapping[str, Mapping[str, frozenset[When]]]
"""Module to the modules that it imports, each with the ways in which it does."""


@cache
def product_files() -> tuple[str, ...]:
    """Python files of the product that git tracks, tests left out, as paths from the root."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "*.py"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split("\0")
    return tuple(name for name in listed if name and name.split("/")[0] not in _NO_PRODUCT and (ROOT / name).exists())


@cache
def parsed(name: str) -> ast.Module:
    """Syntax tree of a file."""
    return ast.parse((ROOT / name).read_text(encoding="utf-8"))


def room_of(name: str) -> str:
    """Room of a file in the table of budgets: the second folder below ``pfl_audit`` and ``attacks``, else the first."""
    parts = name.split("/")
    return "/".join(parts[:2]) if parts[0] in ("pfl_audit", "attacks") and len(parts) > 2 else parts[0]


def code_lines(name: str) -> int:
    """Number of lines that are not blank, and belong to no comment, docstring or import; one less a file.

    The ceilings were set with a count that takes what follows a file's last newline for a blank line.
    """
    lines = (ROOT / name).read_text(encoding="utf-8").split("\n")
    other = {number for number, line in enumerate(lines, 1) if not line.strip() or line.strip().startswith("#")}
    for node in ast.walk(parsed(name)):
        if isinstance(node, ast.Import | ast.ImportFrom) or _is_docstring(node):
            assert isinstance(node, ast.stmt)
            other |= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return len(lines) - 1 - len(other)


def statements(name: str) -> int:
    """Number of statements, imports and docstrings left out."""
    return sum(
        isinstance(node, ast.stmt) and not isinstance(node, ast.Import | ast.ImportFrom) and not _is_docstring(node)
        for node in ast.walk(parsed(name))
    )


def by_room() -> dict[str, tuple[int, int]]:
    """Room to its lines of code and its number of files."""
    code, files = Counter[str](), Counter[str]()
    for name in product_files():
        code[room_of(name)] += code_lines(name)
        files[room_of(name)] += 1
    return {room: (code[room], files[room]) for room in sorted(files)}


@cache
def imports() -> Arrows:
    """Imports between modules of the product."""
    modules = {_module(name): name for name in product_files()}
    found: dict[str, dict[str, set[When]]] = {module: defaultdict(set) for module in modules}

    def walk(module: str, node: ast.AST, when: When) -> None:
        for child in ast.iter_child_nodes(node):
            inner = when
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) and when != "type":
                inner = "late"
            if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.dump(child.test):
                inner = "type"
            for target in _imported(child, modules):
                if target != module:
                    found[module][target].add(inner)
            walk(module, child, inner)

    for module, name in modules.items():
        walk(module, parsed(name), "top")
    return {module: {target: frozenset(kinds) for target, kinds in to.items()} for module, to in found.items()}


def circles(arrows: Arrows, *kinds: When) -> list[frozenset[str]]:
    """Sets of two or more modules that import each other (strongly connected components), by imports of some kinds."""
    graph = {
        module: [target for target, how in to.items() if not how.isdisjoint(kinds)] for module, to in arrows.items()
    }
    back: dict[str, list[str]] = {module: [] for module in graph}
    for module, targets in graph.items():
        for target in targets:
            back[target].append(module)
    seen, taken = set[str](), set[str]()
    order = [module for start in graph for module in _finished(graph, start, seen)]
    groups = [frozenset(_finished(back, module, taken)) for module in reversed(order)]
    return sorted((group for group in groups if len(group) > 1), key=lambda group: (-len(group), min(group)))


def small_parts(arrows: Arrows, lines: int = 100) -> list[str]:
    """Modules below a number of lines that one other module imports, and no second one."""
    users = Counter(target for to in arrows.values() for target in to)
    files = {_module(name): name for name in product_files()}
    return [
        module
        for module, name in files.items()
        if users[module] == 1
        and not name.endswith("__init__.py")
        and len((ROOT / name).read_text(encoding="utf-8").splitlines()) < lines
    ]


def _finished(graph: Mapping[str, Iterable[str]], start: str, seen: set[str]) -> list[str]:
    """Modules that can be reached and were not seen, in the order in which a search in depth leaves them."""
    if start in seen:
        return []
    seen.add(start)
    left, path = [], [(start, iter(graph[start]))]
    while path:
        module, targets = path[-1]
        if (target := next((one for one in targets if one not in seen), None)) is None:
            left.append(module)
            path.pop()
        else:
            seen.add(target)
            path.append((target, iter(graph[target])))
    return left


def _is_docstring(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def _module(name: str) -> str:
    parts = name.removesuffix(".py").split("/")
    parts = ["pfl_audit", *parts] if parts[0] in _LINKED else parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _imported(node: ast.AST, modules: Mapping[str, str]) -> list[str]:
    """Modules of the product that an import statement names."""
    if isinstance(node, ast.Import):
        names = [alias.name for alias in node.names]
    elif isinstance(node, ast.ImportFrom) and node.module:
        longer = [f"{node.module}.{alias.name}" for alias in node.names]
        names = [name if name in modules else node.module for name in longer]
    else:
        return []
    return [name for name in names if name in modules]
