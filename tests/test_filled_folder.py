"""Folders that a command fills: complete, or not there, even where the command was killed."""

from __future__ import annotations

import os
import signal
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import pytest

from pfl_audit.documents.readers import open_corpus
from pfl_audit.documents.synthetic.generator import make_corpus
from pfl_audit.errors import AuditError, UsageError
from pfl_audit.filled_folder import is_unfinished, require_new, whole_or_nothing
from pfl_audit.progress import Silent, Task
from tests.conftest import RECIPE


class _Killing:
    """Progress, and a task of it, of a process that is killed after some pages."""

    def __init__(self) -> None:
        self._left = 5

    def task(self, name: str, total: int, done: int = 0) -> AbstractContextManager[Task]:
        return nullcontext(self)

    def say(self, text: str) -> None: ...

    def advance(self, amount: int = 1, note: str = "") -> None:
        self._left -= amount
        if not self._left:
            os.kill(os.getpid(), signal.SIGKILL)


def _killed(folder: Path) -> None:
    if not (child := os.fork()):
        make_corpus(RECIPE, folder, _Killing())
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL


def _files(folder: Path) -> dict[str, bytes]:
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def test_a_corpus_whose_command_was_killed_is_not_read_and_drawn_again(tmp_path: Path) -> None:
    killed, whole = tmp_path / "killed", tmp_path / "whole"
    _killed(killed)
    assert list(killed.rglob("*.jpg"))
    with pytest.raises(AuditError, match="is not complete"):
        open_corpus(killed)
    (killed / "images" / "of-another-seed.jpg").touch()
    make_corpus(RECIPE, killed, Silent())
    make_corpus(RECIPE, whole, Silent())
    assert _files(killed) == _files(whole)
    assert len(open_corpus(killed).queries) == len(open_corpus(whole).queries)


def test_a_folder_is_filled_by_one_command_at_a_time(tmp_path: Path) -> None:
    with whole_or_nothing(tmp_path), pytest.raises(AuditError, match="is in use"), whole_or_nothing(tmp_path):
        pass


def test_what_a_failure_left_is_removed(tmp_path: Path) -> None:
    def fail(folder: Path) -> None:
        with whole_or_nothing(folder):
            (folder / "images").mkdir()
            (folder / "images" / "page.jpg").touch()
            (folder / "link").symlink_to(tmp_path)
            raise OSError("disk full")

    (existing := tmp_path / "existing").mkdir()
    for folder in (existing, tmp_path / "new" / "folder"):
        with pytest.raises(OSError, match="disk full"):
            fail(folder)
    assert list(tmp_path.rglob("*")) == [existing]


@pytest.mark.parametrize(
    "text", ["", "{", '{"kind": "filling"}', '{"made_by": "pfl-audit", "kind": "audit"}', "[" * 9999]
)
def test_other_files_are_not_taken_for_those_of_a_killed_command(text: str, tmp_path: Path) -> None:
    (tmp_path / ".pfl-audit").write_text(text)
    (tmp_path / "mine").touch()
    assert not is_unfinished(tmp_path)
    with pytest.raises(UsageError, match="is not empty"):
        require_new(tmp_path)
    with pytest.raises(UsageError, match="is not empty"), whole_or_nothing(tmp_path):
        pass
    assert (tmp_path / "mine").exists()
