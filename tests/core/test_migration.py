"""results.json of schema version 1: read, and rendered as the version that wrote it did."""

import json
from pathlib import Path

import pytest

from pfl_audit.core.comparison import compare
from pfl_audit.core.contradiction import surest_bounded
from pfl_audit.core.numbers import chance, interval, number
from pfl_audit.core.results import read_results, write_results
from pfl_audit.reports.html import to_html
from pfl_audit.reports.words import small_print

KEPT = Path(__file__).parents[1] / "data/results-v1"
"""Runs of version 1, cut short, and ``printed.txt``: every number as that version printed it."""
SUBJECTS = ("questions", "forms", "gradients")


@pytest.mark.parametrize("subject", SUBJECTS)
def test_every_number_is_printed_as_before(subject: str) -> None:
    found = read_results(KEPT / subject)
    lines = [
        f"{check.id} | {one.name} | {number(one)} | {interval(one)} | {chance(one)} | {small_print(one)}"
        for check in found.checks
        for one in check.metrics
    ]
    assert lines == (KEPT / subject / "printed.txt").read_text(encoding="utf-8").splitlines()
    assert [data.subject for data in found.datasets] == [subject]
    assert {check.subject for check in found.checks} == {subject}


@pytest.mark.parametrize("subject", SUBJECTS)
def test_what_is_read_is_written_as_the_present_version_with_the_same_report(subject: str, tmp_path: Path) -> None:
    found = read_results(KEPT / subject)
    write_results(found, tmp_path)
    assert json.loads((tmp_path / "results.json").read_text())["schema_version"] == "2.2"
    assert to_html(read_results(tmp_path), tmp_path) == to_html(found, tmp_path)


def test_the_public_model_of_forms_has_a_place_of_its_own() -> None:
    found = read_results(KEPT / "forms")
    assert found.public is not None
    assert found.pretrained is None
    assert read_results(KEPT / "questions").pretrained is not None


def test_utility_and_membership_are_found_by_role() -> None:
    found = read_results(KEPT / "questions")
    roles = [(one.name, one.slice["model"]) for check in found.checks for one in check.metrics if one.role == "utility"]
    assert roles == [("ACC", "target"), ("ANLS", "target")]
    surest = surest_bounded(found.checks, "provider")
    assert surest is not None
    assert (surest.metric.name, surest.metric.slice["model"]) == ("balanced accuracy", "target")
    assert [row.title for row in compare([(found, KEPT)] * 2).utility] == ["ACC on new pages", "ANLS on new pages"]
