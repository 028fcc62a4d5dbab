import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pfl_audit.errors import AuditError, UsageError
from pfl_audit.files import write_json
from pfl_audit.out_folder import MARKER, OutFolder

HOLD = """
import sys, time
from pathlib import Path
from pfl_audit.out_folder import OutFolder
with OutFolder(Path(sys.argv[1]), "audit"):
    Path(sys.argv[1], "x").touch()
    print("held", flush=True)
    time.sleep(60)
"""


def content(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("made_before", [True, False])
def test_a_new_folder_that_nothing_came_of_is_as_it_was(tmp_path: Path, made_before: bool) -> None:
    out = tmp_path / "a/b"
    if made_before:
        out.mkdir(parents=True)
    with pytest.raises(ZeroDivisionError), OutFolder(out, "audit"):
        raise ZeroDivisionError
    assert [str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*")] == (["a", "a/b"] if made_before else [])


def test_what_we_made_is_ours_again_and_other_commands_are_refused(tmp_path: Path) -> None:
    for _ in range(2):
        with OutFolder(tmp_path, "audit"):
            (tmp_path / "x").touch()
    with pytest.raises(UsageError, match="holds the files of another command"):
        OutFolder(tmp_path, "training")


def test_a_folder_that_is_refused_keeps_its_marker(tmp_path: Path) -> None:
    (tmp_path / MARKER).write_text('{"made_by": "pfl-audit", "kind": "audit", "settings": null}')
    with pytest.raises(UsageError, match="another command"):
        OutFolder(tmp_path, "training")
    assert set(content(tmp_path)) == {MARKER}


def test_other_settings_are_refused_once_something_is_there_to_keep(tmp_path: Path) -> None:
    for number in range(2):
        with OutFolder(tmp_path, "training", {"seed": number}, keeps=("weights",)):
            (tmp_path / "tokenizer").touch()
    (tmp_path / "weights").touch()
    OutFolder(tmp_path, "training", {"seed": 1}, keeps=("weights",)).close()
    with pytest.raises(UsageError, match="other data or settings"):
        OutFolder(tmp_path, "training", {"seed": 2}, keeps=("weights",))


@pytest.mark.parametrize("marker", [None, "", "{}", "[]", "{", '{"made_by": "pfl-audit"}', "[" * 4000, "link", "pipe"])
def test_what_others_made_is_left_alone(tmp_path: Path, marker: str | None) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "results.json").write_text("somebody's own")
    (tmp_path / "ours").write_text('{"made_by": "pfl-audit", "kind": "audit", "settings": null}')
    if marker == "link":
        (out / MARKER).symlink_to(tmp_path / "ours")
    elif marker == "pipe":
        os.mkfifo(out / MARKER)
    elif marker is not None:
        (out / MARKER).write_text(marker)
    before = content(out)
    with pytest.raises(UsageError, match="Name another --out"):
        OutFolder(out, "audit")
    assert content(out) == before


def test_an_empty_marker_alone_is_a_run_that_was_killed_at_once(tmp_path: Path) -> None:
    (tmp_path / MARKER).touch()
    with OutFolder(tmp_path, "audit"):
        assert json.loads((tmp_path / MARKER).read_text())["kind"] == "audit"


def test_links_are_not_followed_and_parts_of_a_killed_run_are_removed(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with OutFolder(out, "audit", private=True):
        write_json(out / "private/deep/x.json", 1)
        (out / "private/deep/.x.json.ab12_z9q.part").write_text("half")
        (out / ".hidden.part").write_text("not ours")
    assert out.stat().st_mode & 0o777 == (out / "private/deep").stat().st_mode & 0o777 == 0o700
    OutFolder(out, "audit").close()
    assert set(content(out)) == {MARKER, ".hidden.part", "private/deep/x.json"}
    (out / "evidence").symlink_to(tmp_path)
    with pytest.raises(AuditError, match="evidence is a link, which is not followed"):
        OutFolder(out, "audit")


def test_one_process_at_a_time_and_sigkill_lets_go(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", HOLD, tmp_path], stdout=subprocess.PIPE) as process:
        assert process.stdout
        process.stdout.readline()
        with pytest.raises(AuditError, match="is in use: another pfl-audit writes into it") as caught:
            OutFolder(tmp_path, "audit")
        assert caught.value.exit_code == 2
        process.send_signal(signal.SIGKILL)
        process.wait()
        OutFolder(tmp_path, "audit").close()


def test_a_worker_that_outlives_the_run_does_not_hold_its_folder(tmp_path: Path) -> None:
    folder = OutFolder(tmp_path, "audit")
    (tmp_path / "x").touch()
    ready, begun = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(begun, b".")
        time.sleep(30)
        os._exit(0)
    try:
        os.read(ready, 1)
        folder.close()
        OutFolder(tmp_path, "audit").close()
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def test_what_can_be_no_folder(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "nowhere").symlink_to("gone")
    os.mkfifo(tmp_path / "pipe")
    for name, kind, says in (
        ("file", AuditError, "is a file, not a folder"),
        ("pipe", AuditError, "is a named pipe, not a folder"),
        ("nowhere", AuditError, "is a link that leads nowhere"),
        ("file/x", AuditError, "file is not one"),
        ("file/x/y", AuditError, "file is not one"),
        ("a" * 300, UsageError, "cannot be a folder: File name too long"),
        ("\udcff", UsageError, "its name is not valid UTF-8"),
        ("a\0", UsageError, "cannot be a folder"),
    ):
        with pytest.raises(kind, match=says) as caught:
            OutFolder(tmp_path / name, "audit")
        assert type(caught.value) is kind
