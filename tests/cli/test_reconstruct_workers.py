"""``reconstruct --workers``: the results of one process."""

import json
import secrets
from pathlib import Path
from typing import Any

import pytest

from pfl_audit.cli.main import run

TIMES = ("started", "seconds", "resumed", "command")
SMALL = ("--fields", "8", "--attempts", "2", "--candidates", "8", "--no-control", "-q")


def results(out: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((out / "results.json").read_text())
    for name in TIMES:
        found["provenance"].pop(name)
    return found


@pytest.mark.slow
@pytest.mark.usefixtures("warm_workers")
@pytest.mark.parametrize("more", [(), ("--precision", "bf16")])
def test_the_results_are_those_of_one_process(
    more: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(secrets, "token_hex", lambda count: "0" * 2 * count)  # the same masks
    codes = [
        run(["reconstruct", *SMALL, *more, "--workers", str(count), "--out", str(tmp_path / str(count))])
        for count in (1, 2)
    ]
    assert codes[0] == codes[1]
    assert results(tmp_path / "1") == results(tmp_path / "2")
    counts = [json.loads((tmp_path / f"{count}/run.json").read_text())["fields_filled"] for count in (1, 2)]
    assert counts[0] == counts[1] > 0
