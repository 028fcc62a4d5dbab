import errno
import json
from pathlib import Path

import pytest

from pfl_audit.core.run_folder import RunFolder, Status
from pfl_audit.errors import AuditError, StorageError, UsageError


@pytest.mark.parametrize("status", ["started", "cancelled", "error"])
def test_a_run_without_results_holds_its_folder_for_nobody(tmp_path: Path, status: Status) -> None:
    RunFolder(tmp_path, {"seed": 0}).mark(status)
    folder = RunFolder(tmp_path, {"seed": 1})
    assert not folder.resumed
    assert json.loads((tmp_path / "run.json").read_text())["settings"] == {"seed": 1}


@pytest.mark.parametrize("status", ["started", "cancelled", "error", "success"])
def test_results_of_other_settings_are_kept(tmp_path: Path, status: Status) -> None:
    RunFolder(tmp_path, {"seed": 0}).mark(status)
    (tmp_path / "results.json").write_text("{}")
    before = (tmp_path / "run.json").read_bytes()
    with pytest.raises(UsageError, match="other settings"):
        RunFolder(tmp_path, {"seed": 1})
    assert (tmp_path / "run.json").read_bytes() == before


def test_a_finished_run_whose_results_were_moved_is_kept(tmp_path: Path) -> None:
    RunFolder(tmp_path, {"seed": 0}).mark("success")
    with pytest.raises(UsageError, match="other settings"):
        RunFolder(tmp_path, {"seed": 1})


def test_pictures_of_a_revealed_run_are_not_taken_for_masked_ones(tmp_path: Path) -> None:
    picture = tmp_path / "evidence" / "page-000.jpg"
    RunFolder(tmp_path, {"reveal": True}).close()
    picture.parent.mkdir()
    picture.write_bytes(b"a page")
    RunFolder(tmp_path, {"reveal": True}).close()  # killed, and begun again
    assert picture.exists()
    RunFolder(tmp_path, {"reveal": False}).close()
    assert not picture.exists()


def test_the_same_settings_go_on(tmp_path: Path) -> None:
    assert not RunFolder(tmp_path, {"seed": 0}).resumed
    assert RunFolder(tmp_path, {"seed": 0}).resumed
    RunFolder(tmp_path, {"seed": 0}).mark("success")
    assert not RunFolder(tmp_path, {"seed": 0}).resumed


@pytest.mark.parametrize("content", ["[]", "3", "null", "{}"])
def test_a_file_that_is_not_a_runs(tmp_path: Path, content: str) -> None:
    RunFolder(tmp_path, {}).close()
    (tmp_path / "run.json").write_text(content)
    with pytest.raises(AuditError, match=r"run\.json is not a run's\. Delete it, or name another --out"):
        RunFolder(tmp_path, {})
    assert (tmp_path / "run.json").read_text() == content


def test_names_that_cannot_be(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be a folder"):
        RunFolder(tmp_path / ("a" * 300), {})
    with pytest.raises(UsageError, match="not valid UTF-8"):
        RunFolder(tmp_path, {"red": "\udcff"})


@pytest.mark.parametrize(
    ("error", "status", "reason"),
    [
        (KeyboardInterrupt(), "cancelled", None),
        (AuditError("x is damaged", "Delete it"), "error", "x is damaged. Delete it."),
        (AuditError("\udcff.sqlite is damaged", "Delete it"), "error", " .sqlite is damaged. Delete it."),
        (ValueError("SecretName GmbH"), "error", "ValueError"),
    ],
)
def test_how_a_run_failed_is_written_down(
    tmp_path: Path, error: BaseException, status: str, reason: str | None
) -> None:
    folder = RunFolder(tmp_path, {})
    folder.asked = True
    folder.__exit__(type(error), error, None)
    found = json.loads((tmp_path / "run.json").read_text())
    assert (found["status"], found.get("reason")) == (status, reason)


def test_a_run_that_failed_before_it_asked_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(AuditError), RunFolder(tmp_path / "a/b", {}):
        raise AuditError("no model")
    assert list(tmp_path.iterdir()) == []


def test_a_disk_that_is_full_hides_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(handle: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    folder = RunFolder(tmp_path, {})
    folder.asked = True
    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(StorageError, match="the store is full"), folder:
        raise StorageError("the store is full")


def test_two_runs_at_once(tmp_path: Path) -> None:
    with RunFolder(tmp_path, {}), pytest.raises(AuditError, match="is in use: another pfl-audit writes into it"):
        RunFolder(tmp_path, {})
