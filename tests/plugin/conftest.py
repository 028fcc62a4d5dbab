"""The package of a stranger, installed into a folder of its own."""

import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder with the installed package, for PYTHONPATH."""
    folder = tmp_path_factory.mktemp("site")
    source = tmp_path_factory.mktemp("source") / "plugin"
    source.mkdir()
    for path in (HERE / "pyproject.toml", *(HERE / "pfl_stranger").glob("*.py")):
        target = source / path.relative_to(HERE)
        target.parent.mkdir(exist_ok=True)
        target.write_bytes(path.read_bytes())
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    subprocess.run([*command, "--disable-pip-version-check", "--target", folder, source], check=True)
    return folder
