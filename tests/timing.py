"""CPU seconds of each file of tests, beside what durations.json states and the budget of the tier.

A worker of pytest-xdist measures itself and the processes that it started; the terminal summary of the main process
adds up. Times depend on the machine, so they fail no run but that of ``--check-times``.
"""

from __future__ import annotations

import json
import resource
import time
from collections import Counter
from collections.abc import Generator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.helpers import helper_seconds
from tests.house.budgets import CPU_SECONDS

STATED = Path(__file__).with_name("durations.json")
SETUP = Path(__file__).parents[1] / "build" / "setup-seconds"
"""Written by the Makefile: how long the installation took."""
FIRST, SECOND = "first", "second"
"""Tiers: the tests of ``make test``, and those that are marked ``slow``."""
_SLACK = 3.0
"""CPU seconds by which a file may miss its stated time: what the first user of an import or a cached model pays."""


def read_stated() -> dict[str, dict[str, float]]:
    """Tier to stated CPU seconds of each file, by its path below this folder; ``loop``: those of ``fixed_loop``."""
    return json.loads(STATED.read_text(encoding="utf-8"))


def cpu_seconds() -> float:
    """CPU seconds of this process, of its children that have ended, and of the shared helpers."""
    used = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(each.ru_utime + each.ru_stime for each in used) + helper_seconds()


def fixed_loop() -> float:
    """CPU seconds of a fixed amount of work, which measure the speed of the machine at this moment."""
    start, total = time.process_time(), 0
    for number in range(3_000_000):
        total += number * number % 7
    return time.process_time() - start


class Timing:
    """Plugin of pytest that measures, and prints the sums at the end."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._start = self._mark = time.monotonic()
        self._cpu = 0.0
        self._collection: list[float] = []
        self._loops: list[float] = []
        self._found: dict[str, Counter[str]] = {FIRST: Counter(), SECOND: Counter()}
        self._off: list[str] = []

    def pytest_sessionstart(self) -> None:
        """Take the speed of the machine before the tests."""
        if not hasattr(self._config, "workerinput"):
            self._loops.append(fixed_loop())

    def pytest_collection_finish(self) -> None:
        """Note how long the collection took; a worker sends it to the main process when it ends."""
        self._collection.append(time.monotonic() - self._start)
        if (output := getattr(self._config, "workeroutput", None)) is not None:
            output["collection_seconds"] = self._collection[-1]

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Take what a worker sent."""
        self._collection.append(getattr(node, "workeroutput", {}).get("collection_seconds", 0.0))

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logstart(self) -> None:
        """Begin to measure a test."""
        self._cpu = cpu_seconds()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Add tier and CPU seconds of a test, its fixtures included, to its last report."""
        report = yield
        if call.when == "teardown":
            tier = SECOND if item.get_closest_marker("slow") else FIRST
            report.user_properties.append((tier, cpu_seconds() - self._cpu))
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add up in the main process."""
        for tier, seconds in report.user_properties if report.when == "teardown" else ():
            if tier in self._found and isinstance(seconds, float):
                self._found[tier][report.location[0].removeprefix("tests/")] += seconds

    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """State what was measured, or fail where it is not what is stated, where an option asks for it."""
        if hasattr(self._config, "workerinput") or exitstatus not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
            return
        self._loops.append(fixed_loop())
        if self._config.getoption("state_times"):
            self._state()
        if self._config.getoption("check_times"):
            self._off = off(read_stated(), self._found, self._speed)
            session.exitstatus = session.exitstatus or (pytest.ExitCode.TESTS_FAILED if self._off else 0)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print the sums, the slowest files and those that took longer than stated."""
        stated, whole = read_stated(), self._found[FIRST] + self._found[SECOND]
        if sum(whole.values()) < 1.0:
            return
        write = terminalreporter.write_line
        terminalreporter.section("seconds")
        if SETUP.exists():
            write(f"set-up {SETUP.read_text().strip()} s, when the environment was made")
        write(f"collection {max(self._collection, default=0.0):.0f} s in each process")
        write(f"tests and collection {time.monotonic() - self._start:.0f} s")
        for tier, found in self._found.items():
            known = sum(stated[tier].get(name, 0.0) for name in found)
            seconds = f"{sum(found.values()):.0f} measured, {known:.0f} stated for these files"
            write(f"CPU seconds of the {tier} tier: {seconds}, budget {CPU_SECONDS[tier]}")
        write(f"the machine takes {self._speed:.2f} times as long as when they were stated")
        write("slowest files: " + ", ".join(f"{name} {seconds:.0f}" for name, seconds in whole.most_common(10)))
        longer = [
            f"{name} {seconds:.1f} for {stated[tier].get(name, 0.0):.1f}"
            for tier, found in self._found.items()
            for name, seconds in found.items()
            if seconds > 2 * stated[tier].get(name, 0.0) + _SLACK
        ]
        if longer:
            write("more than twice their stated time: " + ", ".join(longer))
        for line in self._off:
            write(line, red=True)

    @property
    def _speed(self) -> float:
        """Factor by which this machine is slower than when the times were stated."""
        return sum(self._loops) / max(1, len(self._loops)) / read_stated()["loop"]["seconds"]

    def _state(self) -> None:
        stated = read_stated()
        for tier, found in self._found.items():
            if found:
                stated[tier] = {name: round(found[name], 1) for name in sorted(found)}
        stated["loop"] = {"seconds": round(sum(self._loops) / len(self._loops), 3)}
        STATED.write_text(json.dumps(stated, indent=1) + "\n", encoding="utf-8")


def off(stated: Mapping[str, Mapping[str, float]], found: Mapping[str, Mapping[str, float]], speed: float) -> list[str]:
    """Files whose CPU seconds are a factor of two from what is stated, a line each.

    Args:
        stated: Tier to stated seconds of each file.
        found: The same as measured; a tier that did not run is empty.
        speed: Factor by which the machine is slower than when the times were stated.
    """
    return [
        f"{name} took {seconds / speed:.1f} CPU seconds in the {tier} tier, {known:.1f} are stated: make durations"
        for tier, files in found.items()
        for name, seconds in files.items()
        for known in [stated[tier].get(name, 0.0)]
        if seconds / speed > 2 * known + _SLACK or seconds / speed < known / 2 - _SLACK
    ]
