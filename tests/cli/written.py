"""Configuration files of the tests."""

from pathlib import Path


def written(folder: Path, text: str) -> str:
    """Path of an audit.toml with this text."""
    (folder / "audit.toml").write_text(text)
    return str(folder / "audit.toml")
