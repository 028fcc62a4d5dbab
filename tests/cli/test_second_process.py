"""Audits in a second process: an error and an end of it reach the first, and it ends with the first."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pfl_audit.cli.demo import SecondProcess
from pfl_audit.core.plan import AuditPlan
from pfl_audit.errors import AuditError

PARENT = """
import subprocess, sys, time
child = "import os; from pfl_audit.child_process import leave_with; leave_with(os.getppid())"
print(subprocess.Popen([sys.executable, "-c", child]).pid, flush=True)
time.sleep(600)
"""


@pytest.mark.slow
def test_an_error_is_raised_where_the_results_are_asked_for(tmp_path: Path) -> None:
    plan = AuditPlan(
        title="", out=tmp_path / "run", model="nowhere", inputs={"questions": {"red": tmp_path / "missing"}}
    )
    with SecondProcess([plan]) as beside:
        beside.start()
        with pytest.raises(AuditError, match="missing"):
            beside.results()
    assert not list(tmp_path.iterdir())


def test_a_process_that_is_killed_gives_no_results() -> None:
    with SecondProcess([]) as beside:
        beside.start()
        assert beside._process is not None
        assert beside._process.pid is not None
        os.kill(beside._process.pid, signal.SIGKILL)
        with pytest.raises(AuditError, match="was killed"):
            beside.results()


def test_it_ends_with_the_block_and_was_not_started_before(tmp_path: Path) -> None:
    with SecondProcess([]) as beside:
        assert beside._process is None
        beside.start()
    assert beside._process is not None
    assert not beside._process.is_alive()


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks at /proc")
def test_it_does_not_outlive_a_first_process_that_is_killed() -> None:
    process = subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    second = int(process.stdout.readline())
    time.sleep(1)
    assert Path(f"/proc/{second}").exists()
    process.kill()
    process.communicate()
    deadline = time.monotonic() + 60
    while Path(f"/proc/{second}").exists() and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not Path(f"/proc/{second}").exists()


def test_it_ends_where_the_first_process_was_gone_before_it_began() -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    child = f"import time; from pfl_audit.child_process import follow; follow({gone.pid}); time.sleep(20)"
    assert subprocess.run([sys.executable, "-c", child], timeout=15, check=False).returncode == 1
