"""Forks a process a command from an interpreter that has everything imported, and measures it.

Started by ``run.Zygote``. Reads a JSON line {"arguments", "folder"} from stdin, answers with a JSON line.
"""

from __future__ import annotations

import gc
import json
import os
import resource
import select
import signal
import sys
import time
from pathlib import Path
from typing import Any

from tests.hostile.case import CPU_SECONDS, MEMORY

_WALL_SECONDS = 90


def _import_everything() -> None:
    import pkgutil
    from importlib import import_module

    import pfl_audit
    from pfl_audit.cli.libraries import restrain

    restrain()

    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    import torch

    torch.set_num_threads(1)
    for module in pkgutil.walk_packages(pfl_audit.__path__, "pfl_audit."):
        if ".flower" not in module.name and not module.name.endswith("fixtures.build"):
            import_module(module.name)
            _find_extensions(vars(sys.modules[module.name]))
    from pfl_audit.cli.main import click_command

    click_command()  # which every fork would build anew


def _find_extensions(names: dict[str, Any]) -> None:
    """Read the entry points of a module's registries, which every fork would read anew."""
    from pfl_audit.registry import Registry

    for value in list(names.values()):
        if isinstance(value, Registry):
            value.installed()


def _address_space() -> int:
    return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()


def _become(arguments: list[str], folder: str) -> int:
    os.setpgid(0, 0)
    os.chdir(folder)
    for number, name in ((1, "stdout"), (2, "stderr")):
        os.dup2(os.open(f"{folder}.{name}", os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS + 1))
    most = _address_space() + MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    sys.argv = ["pfl-audit", *arguments]
    from pfl_audit.cli.main import run

    code = run(arguments)
    sys.stdout.flush()
    sys.stderr.flush()
    return code


def _ends(child: int, seconds: float) -> bool:
    """Wait for a process to end; False if it does not within the time."""
    process = os.pidfd_open(child)
    try:
        poll = select.poll()
        poll.register(process, select.POLLIN)
        return bool(poll.poll(seconds * 1000))
    finally:
        os.close(process)


def _run(arguments: list[str], folder: str) -> dict[str, Any]:
    began = time.monotonic()
    child = os.fork()
    if child == 0:
        code = 99
        try:
            code = _become(arguments, folder)
        except SystemExit as error:
            code = error.code if isinstance(error.code, int) else 98
        finally:
            os._exit(code)
    late = not _ends(child, _WALL_SECONDS)
    if late:
        os.killpg(child, signal.SIGKILL)
    _, status, usage = os.wait4(child, 0)
    return {
        "code": os.waitstatus_to_exitcode(status),
        "late": late,
        "cpu": usage.ru_utime + usage.ru_stime,
        "wall": time.monotonic() - began,
        "memory": usage.ru_maxrss * 1024,
    }


def main() -> None:
    """Answer until stdin ends."""
    _import_everything()
    gc.collect()
    gc.freeze()  # a collection in a fork would walk, and so copy, the objects of every library
    for line in sys.stdin:
        print(json.dumps(_run(**json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
