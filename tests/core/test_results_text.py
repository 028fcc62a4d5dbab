"""The writer of results.json has the limits of its reader."""

import json
from pathlib import Path

import numpy as np
import pytest

from pfl_audit.core import limits
from pfl_audit.core.curves import Curve, Series, shown_places
from pfl_audit.core.results import Results, read_results, results_text, write_results
from pfl_audit.errors import AuditError
from tests.reports.test_size import large

SMALL = large(checks=40, curves=40, points=600)


def test_a_check_is_a_line_and_the_file_is_read_as_it_was_written(tmp_path: Path) -> None:
    text = write_results(SMALL, tmp_path).read_text(encoding="utf-8")
    lines = text.splitlines()
    assert json.loads(text)["checks"][3] == json.loads(lines[lines.index('"checks": [') + 4].rstrip(","))
    assert list(json.loads(text)) == list(Results.model_fields)
    assert read_results(tmp_path) == SMALL


def test_curves_share_the_room_that_there_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "DRAWN_NUMBERS", 40 * 3 * 2 * 30)
    write_results(SMALL, tmp_path)
    found = [one for check in read_results(tmp_path).checks for curve in check.curves for one in curve.series]
    assert {len(one.x) for one in found} <= set(range(20, 31))
    assert all((one.x[0], one.x[-1]) == (0.0, pytest.approx(599 / 600, abs=1e-5)) for one in found)
    assert sum(one.numbers for one in found) <= limits.DRAWN_NUMBERS


@pytest.mark.parametrize(("limit", "value"), [("FILE", 50_000), ("VALUES", 1000)])
def test_what_a_report_would_refuse_is_not_written(
    limit: str, value: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fits = results_text(SMALL)
    monkeypatch.setattr(limits, limit, value)
    with pytest.raises(AuditError, match=r"results of 40 checks are [\d,]+ values in \d+ MiB, beyond") as error:
        write_results(SMALL, tmp_path)
    assert "--check" in (error.value.remedy or "")
    assert not list(tmp_path.iterdir())
    (tmp_path / "results.json").write_text(fits)
    with pytest.raises(AuditError):
        read_results(tmp_path)


def test_too_many_checks_are_an_error_and_no_crash(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "CHECKS", 2)
    with pytest.raises(AuditError, match="3 checks are more than 2"):
        large(checks=3, curves=0)


@pytest.mark.parametrize("log", [False, True])
@pytest.mark.parametrize("power", [0.1, 1, 7])
def test_a_point_that_is_left_out_lies_by_one_that_is_kept(power: float, log: bool) -> None:
    x = np.sort(np.random.default_rng(0).random(5000)) ** 3
    y = x**power
    kept = shown_places(list(x), list(y), 250, log=log)
    assert len(kept) <= 250
    assert (kept[0], kept[-1]) == (0, 4999)
    least = [min(0.01, part[part > 1e-6].min()) / 1.5 for part in (x, y)]
    shown = [np.log(np.maximum(part, low)) if log else part for part, low in zip((x, y), least, strict=True)]
    shown = [(part - part.min()) / np.ptp(part) for part in shown]
    before = np.searchsorted(kept, np.arange(5000), side="right") - 1
    for part in shown:
        assert np.abs(part - part[np.array(kept)[before]]).max() <= 2 / 248 + 1e-9


def test_hostile_numbers_of_our_own_are_thinned_without_a_warning() -> None:
    numbers = [(-1.0) ** n * 1.7e308 for n in range(600)]
    for kind in ("roc", "line", "step", "scatter"):
        curve = Curve(title="", kind=kind, x_label="", y_label="", series=[Series(name="", x=numbers, y=numbers)])
        assert 3 <= len(curve.series[0].x) <= (600 if kind == "scatter" else limits.DRAWN)
    same = Series(name="", x=[1.0] * 600, y=[0.0] * 600).thinned(250, "roc")
    assert (same.x, same.y) == ([1.0, 1.0], [0.0, 0.0])
