"""Extensions by entry point: those that work are found, whatever the others do."""

import sys
import textwrap
import warnings
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from pfl_audit.registry import ExtensionWarning, Registry

GROUP = "pfl_audit.tests"


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def install(folder: Path, package: str, source: str, *names: str) -> None:
    """A package of one module with entry points, as pip leaves it."""
    module = package.replace("-", "_")
    (folder / f"{module}.py").write_text(textwrap.dedent(source))
    info = folder / f"{module}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    points = "\n".join(f"{name} = {module}:{name.upper()}" for name in names)
    (info / "entry_points.txt").write_text(f"[{GROUP}]\n{points}\n")
    sys.modules.pop(module, None)


def test_what_works_is_found_by_name(packages: Path) -> None:
    install(packages, "two-things", "B = 'second'\nA = 'first'", "b", "a")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert list(Registry[str](GROUP, "thing").installed().items()) == [("a", "first"), ("b", "second")]


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("import no_such_module_anywhere", "ModuleNotFoundError: No module named 'no_such_module_anywhere'"),
        ("raise ValueError('first line\\nsecond line')", "ValueError: first line$"),
        ("raise SystemExit(3)", "SystemExit: 3"),
        ("def broken(:", "SyntaxError"),
        ("OTHER = 1", "AttributeError"),
        ("A = object()", "it has no 'upper'"),
    ],
)
def test_what_is_broken_is_named_and_left_out(packages: Path, source: str, reason: str) -> None:
    install(packages, "broken-thing", source, "a")
    install(packages, "good-thing", "G = 'good'", "g")
    with pytest.warns(ExtensionWarning, match=f"the thing 'a' of the package broken-thing is left out: {reason}"):
        assert Registry[str](GROUP, "thing", ("upper",)).installed() == {"g": "good"}


def test_two_packages_of_one_name(packages: Path) -> None:
    install(packages, "b-package", "A = 'b'", "a")
    install(packages, "a-package", "A = 'a'", "a")
    with pytest.warns(ExtensionWarning, match="of the package b-package is left out: another package"):
        assert Registry[str](GROUP, "thing").installed() == {"a": "a"}


def test_the_files_of_packages_are_read_once_and_again_when_one_is_installed(
    packages: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # it would be a change beside the package
    install(packages, "first-thing", "A = 'first'", "a")
    registry, reads = Registry[str](GROUP, "thing"), []
    monkeypatch.setattr("pfl_audit.registry.entry_points", lambda: reads.append(True) or entry_points())
    assert [registry.installed() for _ in range(3)] == [{"a": "first"}] * 3
    assert Registry[str]("tests.others", "other").installed() == {}
    assert len(reads) == 1
    install(packages, "second-thing", "B = 'second'", "b")
    assert registry.installed() == {"a": "first", "b": "second"}
    assert len(reads) == 2
