import ctypes
import os
import platform
import socket
import struct
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pfl_audit import sandbox, sandbox_lock
from pfl_audit.sandbox import LOCKS, Sandbox, SandboxError, SandboxWarning
from tests.escapes import ATTEMPTS

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="Landlock and seccomp are parts of Linux")
SECRET = ctypes.create_string_buffer(b"secret")
LIMITS = {"memory": 1 << 30, "seconds": 5}
COMBINATIONS = ((), ("Landlock",), ("seccomp",), LOCKS)
"""Parts of the lock that a kernel may have."""


def start(monkeypatch: pytest.MonkeyPatch, parts: tuple[str, ...], target: str = "tests.escapes:attempt") -> Sandbox:
    """A child with some parts of the lock; its first call warns of the others."""
    monkeypatch.setattr(sandbox, "_CHILD", "tests.unlocked_child")
    monkeypatch.setitem(sandbox._ENVIRONMENT, "WITHOUT", " ".join(part for part in LOCKS if part not in parts))
    return Sandbox(target, **LIMITS)


@pytest.fixture(scope="module", params=COMBINATIONS, ids=lambda parts: " and ".join(parts) or "no lock")
def child(request: pytest.FixtureRequest) -> Iterator[tuple[Sandbox, tuple[str, ...]]]:
    """A child, and the parts of its lock."""
    with pytest.MonkeyPatch.context() as patch:
        made = start(patch, request.param)
        with pytest.warns(SandboxWarning) if request.param != LOCKS else pytest.MonkeyPatch.context():
            made.call("start a thread", "", 0, 0)
        yield made, request.param
        made.close()


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder of the user."""
    for name in ("secret", "long", "named", "old"):
        (tmp_path / name).write_text("secret")
    return tmp_path


@pytest.mark.parametrize("name", ATTEMPTS)
def test_an_attempt_succeeds_only_without_the_parts_that_refuse_it(
    child: tuple[Sandbox, tuple[str, ...]], place: Path, name: str
) -> None:
    if name == "type into a terminal" and os.geteuid():
        pytest.skip("without a lock, too, only root types into a terminal that is not its own")
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket(socket.AF_UNIX) as local:
        port = server.getsockname()[1]
        local.bind(f"\0{place.name}{port}")
        local.listen()
        made, parts = child
        succeeded = made.call(name, str(place), port, ctypes.addressof(SECRET))
    assert succeeded == ATTEMPTS[name][1].isdisjoint(parts)


def test_the_lock_of_this_kernel_is_whole(recwarn: pytest.WarningsRecorder) -> None:
    with Sandbox("os.path:join", **LIMITS) as made:
        assert made.call("a", "b") == "a/b"
    if lacks := [str(one.message) for one in recwarn if issubclass(one.category, SandboxWarning)]:
        pytest.skip(lacks[0])


def test_a_child_has_a_clean_environment_and_no_descriptor_but_its_channel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_TOKEN", "x")
    with Sandbox("builtins:eval", **LIMITS) as made, Path(__file__).open() as held:
        os.set_inheritable(held.fileno(), True)
        assert "SECRET_TOKEN" not in made.call("list(__import__('os').environ)")
        assert made.call("__import__('os').getcwd()") == "/"
        with pytest.raises(SandboxError):
            made.call(f"__import__('os').fstat({held.fileno()}).st_size")


def test_a_child_reads_what_is_named_or_handed_over(place: Path) -> None:
    secret = place / "secret"
    for readable in ([place], [secret]):
        with Sandbox("tests.escapes:content", readable=readable, **LIMITS) as made:
            assert made.call(str(secret)) == b"secret"
    with Sandbox("tests.escapes:content", **LIMITS) as made, secret.open("rb") as file:
        assert made.call(file) == b"secret"
        with pytest.raises(SandboxError):
            made.call(str(secret))


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_no_jump_leads_out_of_the_filter(machine: str) -> None:
    column, architecture = sandbox_lock._ARCHITECTURES[machine]
    program = sandbox_lock._program(column, architecture)
    steps = list(struct.iter_unpack("HBBI", program))
    assert len(steps) < 4096
    assert all(at + 1 + max(then, other) < len(steps) for at, (_, then, other, _) in enumerate(steps[:-1]))
    assert steps[-1][0] == sandbox_lock._RETURN


def test_another_architecture_has_no_filter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "riscv64")
    with pytest.raises(sandbox_lock.LockError, match="seccomp"):
        sandbox_lock.seccomp()
