"""Metrics as text: each is printed in the format that it carries, whatever its name."""

import numpy as np
import pytest

from pfl_audit.core.metric import build_metric
from pfl_audit.core.numbers import chance, interval, number
from pfl_audit.core.results import Format, Metric
from pfl_audit.metrics.intervals import Estimate


@pytest.mark.parametrize(
    ("form", "value", "shown", "bare"),
    [
        ("number", 3.2, "3.2", "3.2"),
        ("number", 0.000123456, "0.0001235", "0.0001235"),
        ("number", 12345.6, "12346", "12346"),
        ("percent", 0.663, "66.3 %", "66.3"),
        ("points", -0.052, "-5.2 points", "-5.2"),
        ("decimal", 0.5, "0.500", "0.500"),
        ("integer", 248.4, "248", "248"),
        ("decibel", 24.21, "24.2 dB", "24.2"),
        ("bits", 0.5, "+0.50 bits", "+0.50"),
        ("percent", 1.7e308, "1.7e+308", "1.7e+308"),
    ],
)
def test_a_number_is_printed_in_its_format(form: Format, value: float, shown: str, bare: str) -> None:
    metric = Metric(name="x", format=form, value=value, ci=(value, value), chance=value)
    assert (number(metric), chance(metric)) == (shown, shown)
    assert interval(metric) == f"[{bare}, {bare}]"


@pytest.mark.parametrize(
    ("form", "value", "step", "shown", "bare"),
    [
        ("percent", 0.4, 0.1, "about 40 %", "40"),
        ("percent", 0.025, 0.005, "about 2.5 %", "2.5"),
        ("points", -0.05, 0.05, "about -5 points", "-5"),
        ("decimal", 0.7, 0.1, "about 0.7", "0.7"),
        ("bits", 2.0, 0.5, "about +2.0 bits", "+2.0"),
        ("number", 0.3, 0.1, "about 0.3", "0.3"),
    ],
)
def test_a_rounded_number_has_no_more_digits_than_its_step(
    form: Format, value: float, step: float, shown: str, bare: str
) -> None:
    metric = Metric(name="x", format=form, value=value, ci=(value, value), step=step)
    assert (number(metric), interval(metric)) == (shown, f"[{bare}, {bare}]")


@pytest.mark.parametrize("name", ["epsilon lower bound", "AUC", "gap", "PSNR", "exposure", "tokens disclosed", "MSE"])
def test_the_name_of_a_metric_decides_nothing(name: str) -> None:
    assert number(Metric(name=name, value=3.2)) == "3.2"


def test_a_value_that_is_no_number_has_neither_interval_nor_method() -> None:
    nan = float("nan")
    made = build_metric("x", Estimate(nan, nan, nan, np.empty(0)), note="why", missing="there is nothing to count")
    assert (made.value, made.ci, made.level, made.method) == (None, None, None, None)
    assert made.note == "there is nothing to count"
    assert number(made) == "–"


def test_a_value_without_an_interval_keeps_its_note() -> None:
    made = build_metric("x", 2.0, n=3, unit="pages", note="why", missing="nothing")
    assert (made.value, made.ci, made.method, made.n, made.unit, made.note) == (2.0, None, None, 3, "pages", "why")
