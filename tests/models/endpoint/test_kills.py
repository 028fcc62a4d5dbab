"""SIGKILL while an endpoint is asked, with a server that restarts: nothing stored is asked again."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.models.endpoint.asking import Setting, ask_and_kill, free_port, start_server

pytestmark = pytest.mark.slow

COUNT, IN_FLIGHT = 300, 4


class Restarting:
    """A server that can be killed and started again at the same port."""

    def __init__(self, log: Path) -> None:
        self.port, self.log = free_port(), log
        self.process = start_server(self.port, log)

    def restart(self) -> None:
        self.process.kill()
        self.process.wait()
        time.sleep(0.3)
        self.process = start_server(self.port, self.log)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Restarting]:
    one = Restarting(tmp_path / "log")
    yield one
    one.process.kill()
    one.process.wait()


def test_killed_three_times_with_a_restart_nothing_stored_is_asked_again(
    server: Restarting, corpus_folder: Path, tmp_path: Path
) -> None:
    inputs = ["endpoint_model=tiny", "endpoint_side=64", f"endpoint_concurrency={IN_FLIGHT}"]
    setting = Setting(corpus_folder, f"http://127.0.0.1:{server.port}/v1", COUNT, server.log, inputs)
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    whole.mkdir()
    cut.mkdir()
    expected = ask_and_kill(setting, whole, []).found
    server.log.unlink()

    restarted: list[int] = []

    def watch(number: int, stored: int) -> None:
        if number == 2 and stored >= 140 and not restarted:
            server.restart()
            restarted.append(stored)

    killed = ask_and_kill(setting, cut, [20, 110, 200], watch)
    assert restarted[0] < 200
    assert killed.found["answers"] == expected["answers"]
    assert len(expected["answers"]) == COUNT
    assert killed.found["asked"] == COUNT - killed.stored[-1]
    assert killed.beyond == 0
    assert all(repeats <= IN_FLIGHT for repeats in killed.again)
    assert killed.stored[0] < killed.stored[1] < killed.stored[2] < COUNT
