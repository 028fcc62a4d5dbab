"""Attacks that end with an exception."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from pfl_audit.core.evidence import PRIVATE, EvidenceBox
from pfl_audit.core.failures import failure
from pfl_audit.errors import AuditError, NotAuditableError, StorageError, UnanswerableError
from pfl_audit.progress import Silent


def context(folder: Path) -> Any:
    return cast("Any", SimpleNamespace(evidence=EvidenceBox(folder), progress=Silent()))


def test_the_reason_names_the_exception_and_not_its_text(tmp_path: Path) -> None:
    """The text may hold a value; it stays in the private folder."""
    status, reason = failure(ValueError("Acme Media"), "length", context(tmp_path))
    assert status == "failed"
    assert "ValueError" in reason
    assert "Acme" not in reason
    assert "Acme Media" in (tmp_path / PRIVATE / "traceback-length.txt").read_text()


def test_what_is_ours_is_said_and_what_concerns_the_whole_run_goes_on(tmp_path: Path) -> None:
    where = context(tmp_path)
    assert failure(NotAuditableError("needs losses", "x"), "length", where)[0] == "skipped"
    assert failure(AuditError("too few", "x"), "length", where)[0] == "failed"
    assert (
        "secret.png"
        not in failure(UnanswerableError("secret.png is too large", "x", "it is too large"), "length", where)[1]
    )
    with pytest.raises(StorageError):
        failure(StorageError("full", "x"), "length", where)
