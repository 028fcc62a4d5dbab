"""Page features on disk: what is read back, what a killed run keeps, and how much memory they take."""

import os
import resource
import signal
from pathlib import Path

import pytest
import torch

from pfl_audit.errors import AuditError, UsageError
from pfl_audit.models.page_store import PageStore

RUN = "0" * 64


def blocks(count: int = 3) -> torch.Tensor:
    return torch.randn(count, 4, 5, 6, generator=torch.Generator().manual_seed(1))


def test_rows_come_back_as_float16_has_them(tmp_path: Path) -> None:
    store, wanted = PageStore(tmp_path / "pages", RUN), blocks()
    for block in wanted:
        store.append(block)
    assert store.rows == 12
    found = store[[11, 0, 11, 5]]
    assert found.dtype == torch.float32
    assert torch.equal(found, wanted.flatten(0, 1)[[11, 0, 11, 5]].half().float())
    assert (tmp_path / "pages").stat().st_mode & 0o777 == 0o600


def test_a_kill_loses_the_block_that_was_being_written_alone(tmp_path: Path) -> None:
    path, wanted = tmp_path / "pages", blocks()
    child = os.fork()
    if child == 0:
        store = PageStore(path, RUN)
        store.append(wanted[0])
        store.append(wanted[1])
        with path.open("ab") as file:
            file.write(b"half a row")
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    store = PageStore(path, RUN)
    assert store.rows == 8
    store.append(wanted[2])
    again = PageStore(path, RUN)
    assert torch.equal(again[range(12)], wanted.flatten(0, 1).half().float())


def test_a_file_of_another_run_or_a_damaged_one_is_refused(tmp_path: Path) -> None:
    PageStore(tmp_path / "pages", RUN).append(blocks()[0])
    with pytest.raises(UsageError, match="other data or settings"):
        PageStore(tmp_path / "pages", "1" * 64)
    for content in (b"", b"{}", b'{"settings": "0", "shape": [0]}', b'{"settings": "0", "shape": 7}'.ljust(5000)):
        (tmp_path / "damaged").write_bytes(content)
        with pytest.raises(AuditError, match="damaged"):
            PageStore(tmp_path / "damaged", RUN)


@pytest.mark.parametrize("value", [float("nan"), 1e6])
def test_what_float16_cannot_hold_is_refused(tmp_path: Path, value: float) -> None:
    with pytest.raises(AuditError, match="not finite"):
        PageStore(tmp_path / "pages", RUN).append(torch.full((1, 2), value))
    assert not (tmp_path / "pages").exists()


def test_memory_does_not_grow_with_the_pages(tmp_path: Path) -> None:
    """A process that writes and reads 64 MB of features needs at most 16 MB more than one with 4 MB of them."""
    few, many = (_peak(tmp_path / str(blocks), blocks) for blocks in (2, 32))
    assert many - few < 16


def _peak(path: Path, count: int) -> float:
    """Most memory, in MB, of a process that writes and reads so many blocks of 2 MB."""
    out, into = os.pipe()
    if (child := os.fork()) == 0:
        store = PageStore(path, RUN)
        for _ in range(count):
            store.append(torch.ones(16, 64, 1024))
        for at in range(0, store.rows, 8):
            store[range(at, at + 8)]
        os.write(into, str(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss).encode())
        os._exit(0)
    os.waitpid(child, 0)
    os.close(into)
    with os.fdopen(out) as file:
        return int(file.read()) / 1024
