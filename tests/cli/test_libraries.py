import os
import subprocess
import sys
from pathlib import Path

import pytest

TALK = """
import logging, os, sys, warnings
from pathlib import Path
import pfl_audit.cli.main as cli
from pfl_audit.cli.console import note
from pfl_audit.registry import ExtensionWarning

def command(*arguments, **options):
    import numpy as np
    warnings.simplefilter("always")  # as some libraries do when they are imported
    warnings.warn("\\x1b[31mred", UserWarning)
    logging.getLogger("matplotlib.font_manager").warning("findfont: \\x1b[31mno such font")
    np.float64(1) / np.float64(0)
    from matplotlib.figure import Figure
    figure = Figure()
    figure.subplots().set_title("\\u0e01 \\U0001f600")  # no font that matplotlib carries has them
    figure.savefig(Path(os.environ["PLACE"]) / "figure.png")
    for _ in range(2):
        warnings.warn("the reader 'x' is left out", ExtensionWarning)
    note("ours")

cli.click_command = lambda: command
cli.main()
"""


def printed(place: Path, *flags: str) -> str:
    environment = os.environ | {"PLACE": str(place), "XDG_CACHE_HOME": str(place / "cache")}
    for name in ("PYTHONWARNINGS", "MPLCONFIGDIR"):
        environment.pop(name, None)
    command = [sys.executable, *flags, "-c", TALK, "list"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return done.stderr


@pytest.mark.slow
def test_the_terminal_shows_our_lines_alone(tmp_path: Path) -> None:
    assert printed(tmp_path) == "warning: the reader 'x' is left out\nours\n"
    assert list((tmp_path / "cache").iterdir()) == [tmp_path / "cache/pfl-audit"]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("word", ["red", "no such font", "divide by zero", "missing from font"])
def test_who_asks_python_for_warnings_sees_them(word: str, said: str) -> None:
    assert word in said


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> str:
    return printed(tmp_path_factory.mktemp("said"), "-W", "default")
