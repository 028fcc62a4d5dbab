"""What a process does with memory that a model has freed, and how much it can still get."""

from __future__ import annotations

import ctypes
import resource
from pathlib import Path

_M_TRIM_THRESHOLD = -1
_M_MMAP_MAX = -4


def keep_freed_memory() -> None:
    """Let glibc keep what was freed instead of handing it back to the kernel; elsewhere nothing happens.

    Every batch needs the same large tensors again. Fetching them anew, page by page, is a third of the
    time of a small model on a CPU.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, TypeError, AttributeError):
        return  # another C library
    mallopt(_M_MMAP_MAX, 0)
    mallopt(_M_TRIM_THRESHOLD, -1)


def free_memory() -> int | None:
    """Bytes that this process can still get: of the machine, and of its own limit; None where Linux does not say."""
    try:
        free = 1024 * int(_line("/proc/meminfo", "MemAvailable:").split()[1])
        limit, _ = resource.getrlimit(resource.RLIMIT_AS)
        if limit != resource.RLIM_INFINITY:
            free = min(free, limit - 1024 * int(_line("/proc/self/status", "VmSize:").split()[1]))
        return free
    except (OSError, StopIteration):
        return None


def _line(path: str, start: str) -> str:
    return next(line for line in Path(path).read_text(encoding="ascii").splitlines() if line.startswith(start))
