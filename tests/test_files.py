import errno
import json
import os
from pathlib import Path

import pytest

from pfl_audit.errors import AuditError, StorageError, UsageError
from pfl_audit.files import PAGE_MARK, atomic_write, sha256_json, write_json, write_page
from pfl_audit.inputs import read_json


def test_a_file_appears_whole_and_private(tmp_path: Path) -> None:
    write_json(tmp_path / "a/b.json", {"x": "ü"})
    assert read_json(tmp_path / "a/b.json") == {"x": "ü"}
    assert (tmp_path / "a/b.json").stat().st_mode & 0o777 == 0o600
    write_json(tmp_path / "open.json", 1, private=False)
    assert (tmp_path / "open.json").stat().st_mode & 0o044


def test_an_error_leaves_the_old_file_and_no_rest(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_text("old")
    with pytest.raises(TypeError), atomic_write(path) as file:
        file.writelines([b"new", "not bytes"])  # type: ignore[list-item]
    assert path.read_text() == "old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["x"]


def test_a_full_disk_is_one_line_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(handle: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(AuditError, match=r"x cannot be written: No space left on device\. Free some space"):
        write_json(tmp_path / "x", {})
    assert not list(tmp_path.iterdir())


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(AuditError, match="cannot be written"):
        write_json(tmp_path / "file/x.json", {})


def test_what_is_not_a_number_never_gets_into_json(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="JSON"):
        write_json(tmp_path / "x", {"a": float("nan")})
    assert not list(tmp_path.iterdir())


def test_digest_does_not_depend_on_the_order_of_keys() -> None:
    assert sha256_json({"a": 1, "b": 2}) == sha256_json(json.loads('{"b": 2, "a": 1}'))


def test_an_error_is_one_line_whatever_is_in_it() -> None:
    error = UsageError("a\nname\twith breaks", "Do\nthis")
    assert str(error) == "a name with breaks. Do this."
    assert error.exit_code == 4


def test_a_file_that_is_too_large(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text("[" + " " * 100 + "]")
    with pytest.raises(AuditError, match="larger than"):
        read_json(tmp_path / "x.json", limit=50)


@pytest.mark.parametrize(
    ("number", "remedy"),
    [
        (errno.ENOSPC, "Free some space"),
        (errno.EFBIG, "Free some space"),
        (errno.EACCES, "Make it writable"),
        (errno.EROFS, "Make it writable"),
        (errno.ENOTDIR, "Choose another --out"),
        (errno.EIO, "Check the disk"),
    ],
)
def test_what_helps_depends_on_what_is_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, remedy: str
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr("tempfile.mkstemp", fail)
    with pytest.raises(StorageError, match=rf"cannot be written: .*\. {remedy}"):
        write_json(tmp_path / "x", {})


def test_a_page_is_written_over_a_page_of_ours_alone(tmp_path: Path) -> None:
    page, linked = tmp_path / "page.html", tmp_path / "linked.html"
    for text in ("a", "b"):
        write_page(page, f"<head>{PAGE_MARK}</head>{text}")
    assert page.read_text().endswith("b")
    page.write_text("<p>somebody's own</p>")
    linked.symlink_to(page)
    (tmp_path / "folder").mkdir()
    for path, kind, says in (
        (page, UsageError, "page.html is not a page of pfl-audit. Move it away"),
        (linked, AuditError, "linked.html is a link, not a page of pfl-audit"),
        (tmp_path / "folder", AuditError, "is a folder, not a page of pfl-audit"),
    ):
        with pytest.raises(kind, match=says):
            write_page(path, PAGE_MARK)
    assert page.read_text() == "<p>somebody's own</p>"


def test_folders_of_private_files_are_private(tmp_path: Path) -> None:
    write_json(tmp_path / "a/b/x.json", 1)
    write_json(tmp_path / "c/d/x.json", 1, private=False)
    assert [(tmp_path / name).stat().st_mode & 0o777 for name in ("a", "a/b")] == [0o700, 0o700]
    assert (tmp_path / "c/d").stat().st_mode & 0o055


@pytest.mark.parametrize("name", ["x" * 255, "é" * 127, "a" * 199 + "é" * 20])
def test_a_name_of_any_length_is_written(tmp_path: Path, name: str) -> None:
    with atomic_write(tmp_path / name) as file:
        file.write(b"content")
    assert [path.name for path in tmp_path.iterdir()] == [name]
