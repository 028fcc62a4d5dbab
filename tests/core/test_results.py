"""results.json: what our own code writes is cut to fit its limits, what is read must fit."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pfl_audit.core import limits
from pfl_audit.core.attack import CheckSpec
from pfl_audit.core.results import Check, Curve, Metric, Results, Series, Table, Target, read_results, write_results
from pfl_audit.errors import AuditError, UsageError
from tests.hostile.door_results import results, write


def read(folder: Path, value: dict[str, Any]) -> Results:
    write(folder, json.dumps(value))
    return read_results(folder / "run")


def refusal(folder: Path, value: dict[str, Any]) -> str:
    with pytest.raises(AuditError) as error:
        read(folder, value)
    assert error.value.exit_code == 2
    return error.value.problem


def test_results_as_they_were_written_so_far_are_read(tmp_path: Path) -> None:
    value = results()
    del value["checks"][0]["curves"][0]["series"][0]["low"], value["checks"][0]["curves"][0]["series"][0]["high"]
    found = read(tmp_path, value)
    assert found.checks[0].metrics[0].ci == (0.6, 0.8)
    assert found.checks[0].curves[0].series[0].low is None


def test_what_is_largest_of_our_own_can_be_read_again(tmp_path: Path) -> None:
    flood = "x" * 10**5
    numbers = [float(n) for n in range(50_000)]
    check = Check(
        id=flood,
        family=flood,
        title=flood,
        status="ran",
        reason=flood,
        metrics=[Metric(name=flood, value=0.5, slice={"about": flood}, note=flood)],
        tables=[Table(title=flood, columns=[flood], rows=[[flood]] * 6_000)],
        curves=[Curve(title=flood, kind="roc", x_label="", y_label="",
                      series=[{"name": flood, "x": numbers, "y": numbers}])],  # type: ignore[list-item]
    )  # fmt: skip
    base = Results.model_validate(results())
    target = Target(family="vt5", path=flood, sha256="0", parameters=None, notes=[flood] * 500,
                    training_claim={"mode": "fl-dp", "rounds": [0] * 10**6})  # fmt: skip
    written = base.model_copy(update={"checks": [check], "target": target})
    write_results(written, tmp_path)
    found = read_results(tmp_path)
    assert found == written
    assert found.target.training_claim == {"mode": "fl-dp"}
    assert found.checks[0].tables[0].note == "1000 more rows are left out."
    series = found.checks[0].curves[0].series[0]
    assert 3 <= len(series.x) <= limits.DRAWN
    assert (series.x[0], series.x[-1]) == (0.0, 49_999.0)


def test_points_and_cells_of_our_own_that_json_cannot_hold_are_left_out() -> None:
    nan, inf = float("nan"), float("inf")
    series = Series(name="", x=[0, 1, nan, 3], y=[0, inf, 2, 3], low=[0, 0, 0, 0], high=[1, 1, 1, 1])
    assert (series.x, series.y, series.low) == ([0, 3], [0, 3], [0, 0])
    assert Table(title="", columns=["a"], rows=[[inf, 1.5]]).rows == [[None, 1.5]]


def test_a_reason_that_names_a_file_of_no_valid_utf8_can_be_written() -> None:
    row = CheckSpec("a.b", "A").not_run("failed", "é\udcff.json cannot be read")
    assert row.reason == "é?.json cannot be read"


def test_an_error_names_the_field_and_nothing_of_the_file(tmp_path: Path) -> None:
    value = results()
    value["checks"][0]["evidence"][0]["facts"] = {"SecretName GmbH": ["SecretName GmbH"]}
    problem = refusal(tmp_path, value)
    assert "at 'checks.0.evidence.0.facts'" in problem
    assert "SecretName" not in problem


def test_a_name_that_is_no_field_is_not_printed(tmp_path: Path) -> None:
    problem = refusal(tmp_path, {**results(), "SecretName GmbH": 1})
    assert "does not fit schema 2" in problem
    assert "SecretName" not in problem


def test_a_folder_that_is_missing_is_another_mistake_than_one_without_results(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "gone")
    for place in (tmp_path / "gone", tmp_path / "link"):
        with pytest.raises(UsageError, match="does not exist"):
            read_results(place)
    with pytest.raises(AuditError, match=r"holds no results\.json") as error:
        read_results(tmp_path)
    assert error.value.exit_code == 2


def parts(schema: Any) -> Iterator[dict[str, Any]]:
    """Every schema within a schema."""
    if isinstance(schema, dict):
        yield schema
        for item in schema.values():
            yield from parts(item)
    elif isinstance(schema, list):
        for item in schema:
            yield from parts(item)


def test_the_printed_schema_limits_every_text_and_every_list() -> None:
    found = list(parts(Results.model_json_schema()))
    texts = [part for part in found if part.get("type") == "string" and "enum" not in part and "const" not in part]
    lists = [part for part in found if part.get("type") == "array"]
    assert len(texts) > 40
    assert all("maxLength" in part for part in texts)
    assert len(lists) > 10
    assert all("maxItems" in part for part in lists)
