"""Finished runs and claims of privacy that somebody else wrote."""

from __future__ import annotations

import base64
import json
import os
from pathlib import Path

from tests.hostile.case import Door
from tests.hostile.second import FIXTURES, check, chunk, png, run, settings, write

DOOR = Door("second: runs")
_EVIL = "</script><script>alert(1)</script>\x1b[2J"
_SECRET = png(1, 1, chunk(b"tEXt", b"secret\x00" + b"of somebody else " * 9))
_REPORT = ["report", "given/run"]


@DOOR.case(2, says=("results.json",))
def _a_number_of_four_hundred_digits(folder: Path) -> list[str]:
    place = run(folder, checks=[check(metrics=[{"name": "x", "value": "HUGE"}])]) / "results.json"
    write(place, place.read_text().replace('"HUGE"', "1" * 400))
    return _REPORT


@DOOR.case(0, 1, 2, 3)
def _numbers_that_are_not_finite(folder: Path) -> list[str]:
    nan, huge = float("nan"), 1e308
    wrong = [
        {"name": "x", "value": nan, "ci": [huge, -huge], "chance": float("inf"), "level": nan, "std": -huge, "n": -1}
    ]
    line = {"name": "x", "x": [nan, huge, -huge], "y": [nan, huge, -huge], "low": [nan] * 3, "high": [huge] * 3}
    curves = [
        {"title": "t", "kind": kind, "x_label": "x", "y_label": "y", "series": [line]} for kind in ("roc", "step")
    ]
    run(folder, checks=[check(metrics=wrong, curves=curves)])
    return _REPORT


@DOOR.case(0, 1, 2, 3)
def _curves_that_are_no_curves(folder: Path) -> list[str]:
    series = [
        {"name": 7, "x": ["a"], "y": [None]}, {"x": [1, 2, 3], "y": [1]}, {}, {"name": "n", "x": "xx", "y": {"a": 1}},
        {"name": ["n"], "x": [[1]], "y": [[1]]}, {"name": "n", "x": [1], "y": [1], "low": [0, 1], "high": 7},
    ]  # fmt: skip
    kinds = ("roc", "line", "step", "scatter")
    curves = [
        {"title": "t", "kind": kind, "x_label": "x", "y_label": "y", "series": [one]}
        for kind in kinds
        for one in series
    ]
    tables = [{"title": "t", "columns": ["a"], "rows": [[], [1, 2, 3], ["x"] * 5000]}]
    run(folder, checks=[check(curves=curves, tables=tables)])
    return _REPORT


@DOOR.case(0, 1, 2, 3)
def _a_run_whose_every_text_is_a_program(folder: Path) -> list[str]:
    evil = check(
        id=_EVIL, family=_EVIL, title=_EVIL, settings={_EVIL: _EVIL}, threat_model={_EVIL: _EVIL},
        finding={"level": "leak", "text": _EVIL, "remedy": f"[x](javascript:{_EVIL})"},
        evidence=[{"title": _EVIL, "facts": {_EVIL: _EVIL}, "picture": _EVIL}],
        curves=[{"title": _EVIL, "kind": "line", "x_label": _EVIL, "y_label": _EVIL,
                 "series": [{"name": _EVIL, "x": [0, 1], "y": [0, 1]}]}],
        tables=[{"title": _EVIL, "columns": [_EVIL], "rows": [[_EVIL]], "note": _EVIL}],
    )  # fmt: skip
    run(folder, title=_EVIL, checks=[evil])
    return [*_REPORT, "-q"]


@DOOR.case(0, 1, 2, 3, silent=(base64.b64encode(_SECRET)[:120].decode(),))
def _evidence_that_shows_a_file_elsewhere(folder: Path) -> list[str]:
    write(folder / "secret.png", _SECRET)
    places = [
        "../../secret.png",
        str(folder / "secret.png"),
        "link.png",
        "folder/../../../secret.png",
    ]
    place = run(folder, checks=[check(evidence=[{"title": "t", "picture": there} for there in places])])
    (place / "link.png").symlink_to("../../secret.png")
    return _REPORT


@DOOR.case(0, 1, 2, 3)
def _evidence_under_a_name_that_no_file_has(folder: Path) -> list[str]:
    run(folder, checks=[check(evidence=[{"title": "t", "picture": name} for name in ("\x00", "a" * 5000, "\ud800")])])
    return _REPORT


@DOOR.case(2, says=("results.json",))
def _settings_without_a_bottom(folder: Path) -> list[str]:
    place = run(folder, checks=[check(settings={"deep": "HERE"})]) / "results.json"
    write(place, place.read_text().replace('"HERE"', '{"a":' * 60_000 + "1" + "}" * 60_000))
    return _REPORT


@DOOR.case(2, says=("results.json",))
def _a_run_that_is_a_pipe(folder: Path) -> list[str]:
    run(folder, "given/sound")
    (folder / "given" / "run").mkdir()
    os.mkfifo(folder / "given" / "run" / "results.json")
    return ["compare", "given/sound", "given/run"]


# Claims


def _claim(name: str, **changes: object) -> None:
    def make(folder: Path) -> list[str]:
        write(folder / "training.json", (FIXTURES / "vt5-private" / "training.json").read_bytes())
        settings(folder / "training.json", {f"privacy.{key.replace('__', '.')}": what for key, what in changes.items()})
        return ["account", "--review", "training.json"]

    DOOR.add(name, make, 0, 1, 2, 3)


_claim("ten million rounds of hardly any noise", rounds=10**7, rounds_accounted=10**7, noise_multiplier=1e-9)
_claim("noise beyond all measure", noise_multiplier=1e308, epsilon=1e308, delta=5e-324, clip=5e-324, denominator=1e308)
_claim("chances next to nothing", sampling__provider_rate=5e-324, sampling__client_rate=5e-324, rounds=10**7)


@DOOR.case(2, 3)
def _a_claim_of_brackets_and_half_characters(folder: Path) -> list[str]:
    text = json.dumps({"privacy": {"unit": "\ud800\x1b[2J", "epsilon": "HERE"}})
    write(folder / "training.json", text.replace('"HERE"', "[" * 90_000 + "]" * 90_000))
    return ["account", "--review", "training.json"]
