"""Lint, formatting and types, in processes of their own."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CHECKS = {
    "lint": ["ruff", "check", "."],
    "formatting": ["ruff", "format", "--check", "."],
    "types": ["mypy", "--cache-dir", "build/mypy", "-p", "pfl_audit"],
}
"""As ``make check`` runs them."""


@pytest.mark.parametrize("check", CHECKS)
def test_source_passes(check: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", *CHECKS[check]], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
