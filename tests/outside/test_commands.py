"""No command looks up a host or writes beside its output, the store and the cache, and strace would see it."""

import importlib.util
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.help_pages import commands as known_commands
from tests.outside.commands import commands, environment, make_inputs
from tests.outside.strace import Seen, end_traced, read_trace, start_traced, strace_works

pytestmark = pytest.mark.slow

if not strace_works():
    pytest.skip("strace is missing, or may not trace here", allow_module_level=True)

WAIT = 15
"""Seconds after the last command: onnxruntime calls about 8 s after it was imported."""
CACHE = "home/.cache/pfl-audit"
TELEMETRY = "import rapidocr, onnxruntime, time; time.sleep(120)"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("outside").resolve()
    make_inputs(place)
    return place


@pytest.fixture(scope="module")
def telemetry(place: Path) -> Iterator[subprocess.Popen[str]]:
    """A process with onnxruntime as it comes, beside the commands, to save the wait."""
    process = start_traced(
        [sys.executable, "-c", TELEMETRY], place / "telemetry", place / "cwd", environment(place) | {"HOME": str(place)}
    )
    yield process
    end_traced(process)


@pytest.fixture(scope="module")
def seen(place: Path, telemetry: object) -> Seen:
    """All commands in one process."""
    command = [sys.executable, "-m", "tests.outside.commands", str(place), str(WAIT)]
    process = start_traced(command, place / "trace", place / "cwd", environment(place))
    said, _ = process.communicate(timeout=600)
    ended = dict(re.findall(r"^RAN (.*): (\d+) in", said, re.MULTILINE))
    assert process.returncode == 0, said
    assert ended.keys() == commands(place).keys(), said
    assert set(ended.values()) <= {"0", "1", "3"}, said
    return read_trace(place / "trace", place / "cwd")


def test_every_command_is_run(place: Path) -> None:
    groups = [[], ["data"], ["store"]]
    assert sorted(commands(place)) == sorted(" ".join(words) for words in known_commands() if words not in groups)


def test_no_command_turns_to_the_network(seen: Seen) -> None:
    assert seen.talk == []


def test_files_are_written_in_the_output_and_the_cache_alone(seen: Seen, place: Path) -> None:
    assert seen.outside(place / "out", place / CACHE) == []
    assert {place / "out/mia/results.json", place / "out/demo/responses.sqlite"} <= set(seen.written)


def test_strace_sees_what_telemetry_does(telemetry: subprocess.Popen[str], place: Path) -> None:
    """The same trace finds look-ups and a device id where the telemetry is on: the tests above can fail."""
    library = importlib.util.find_spec("onnxruntime")
    assert library is not None
    assert library.origin is not None
    files = Path(library.origin).parent.glob("capi/*.so*")
    if not any(b"ORT_DISABLE_TELEMETRY" in file.read_bytes() for file in files):
        pytest.skip("this onnxruntime has no telemetry")
    end = time.monotonic() + 90
    while not (found := read_trace(place / "telemetry", place / "cwd")).talk:
        assert telemetry.poll() is None
        assert time.monotonic() < end
        time.sleep(0.5)
    assert any("htons(53)" in call for call in found.talk)
    assert [path for path in found.outside(place / CACHE) if path.name == "deviceid"]
