import os
import socket
from pathlib import Path

import pytest

from pfl_audit.errors import AuditError, UsageError
from pfl_audit.inputs import is_regular, open_input, read_bytes, read_json, read_text, sha256_input


def special(kind: str, path: Path) -> Path:
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "socket":
        with socket.socket(socket.AF_UNIX) as end:
            end.bind(str(path))
    elif kind == "device":
        path.symlink_to("/dev/zero")
    else:
        path.mkdir()
    return path


@pytest.mark.parametrize("kind", ["pipe", "socket", "device", "folder"])
def test_what_is_no_regular_file_is_refused_at_once(kind: str, tmp_path: Path) -> None:
    path = special(kind, tmp_path / "x")
    assert not is_regular(path)
    for read in (lambda: read_bytes(path, limit=10), lambda: sha256_input(path), lambda: open_input(path, limit=None)):
        with pytest.raises(AuditError, match=f"x is a {'named pipe' if kind == 'pipe' else kind}") as caught:
            read()
        assert caught.value.exit_code == 2


def test_a_link_to_a_file_is_that_file(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"abc")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    assert read_bytes(tmp_path / "b", limit=3) == b"abc"


def test_a_file_over_the_limit_is_refused_before_it_is_read(tmp_path: Path) -> None:
    with (tmp_path / "x").open("wb") as file:
        file.truncate(1 << 40)  # sparse
    with pytest.raises(AuditError, match="x is larger than 1 MiB"):
        read_bytes(tmp_path / "x", limit=1 << 20)


@pytest.mark.parametrize("name", ["missing", "missing/too", "n" * 5000, "a\0b"])
def test_a_file_that_is_not_there_is_wrong_usage(name: str, tmp_path: Path) -> None:
    assert not is_regular(tmp_path / name)
    with pytest.raises(UsageError):
        read_bytes(tmp_path / name, limit=1)


def test_text_may_begin_with_a_byte_order_mark(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"\xef\xbb\xbf{}")
    assert read_text(tmp_path / "x", limit=10) == "{}"
    assert read_json(tmp_path / "x") == {}


@pytest.mark.parametrize("text", [b"\xff", b"{", b"[" * 100_000, b"1" * 5000])
def test_what_is_not_json_is_one_line_without_the_text(text: bytes, tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(text)
    with pytest.raises(AuditError) as caught:
        read_json(tmp_path / "x")
    assert len(str(caught.value)) < 300
