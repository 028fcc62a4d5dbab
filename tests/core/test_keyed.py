"""The private key of a run, its exact results, and settings that are refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from pfl_audit.core.keyed import exact_of, keyed, run_key
from pfl_audit.core.results import write_results
from pfl_audit.errors import AuditError
from tests.reports.test_html import results


def test_a_run_keeps_its_key_and_two_runs_never_share_one(tmp_path: Path) -> None:
    first, again, other = run_key(tmp_path / "a"), run_key(tmp_path / "a"), run_key(tmp_path / "b")
    assert first == again != other
    assert keyed(first, "x") == keyed(again, "x") != keyed(other, "x")
    assert (tmp_path / "a/private/key").stat().st_mode & 0o077 == 0


def test_results_without_their_key_are_one_line(tmp_path: Path) -> None:
    write_results(results(), tmp_path)
    with pytest.raises(AuditError, match="holds results without their private key"):
        run_key(tmp_path)


@pytest.mark.parametrize("text", ["", "00", "z" * 64, "0" * 62])
def test_what_is_no_key_is_one_line(tmp_path: Path, text: str) -> None:
    (tmp_path / "private").mkdir()
    (tmp_path / "private/key").write_text(text)
    with pytest.raises(AuditError, match="is no key of a run"):
        run_key(tmp_path)


def test_exact_results_are_those_of_the_same_run(tmp_path: Path) -> None:
    exact = results()
    masked = exact.model_copy(update={"provenance": exact.provenance.model_copy(update={"smallest_group": 5})})
    assert exact_of(masked, tmp_path) is masked
    write_results(exact, tmp_path / "private")
    assert exact_of(masked, tmp_path) == exact
    later = masked.provenance.model_copy(update={"started": "2027-01-01T00:00:00+00:00"})
    assert exact_of(masked.model_copy(update={"provenance": later}), tmp_path).provenance == later
