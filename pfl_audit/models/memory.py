"""Memory of the process: allocator settings, what is free, and the most that was held."""

from __future__ import annotations

import ctypes
import resource
import sys
from pathlib import Path

_M_TRIM_THRESHOLD = -1
_M_MMAP_MAX = -4


def keep_freed_memory() -> None:
    """Configure glibc to keep freed memory instead of returning it to the kernel; no effect with other C libraries.

    Every batch allocates the same large tensors again. Page faults of fresh memory take a third of the time of a
    small model on a CPU.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, TypeError, AttributeError):
        return  # another C library
    mallopt(_M_MMAP_MAX, 0)
    mallopt(_M_TRIM_THRESHOLD, -1)


def free_memory() -> int | None:
    """Bytes that this process can still allocate, by the machine's memory and its own limit; None outside Linux."""
    try:
        free = 1024 * int(_line("/proc/meminfo", "MemAvailable:").split()[1])
        limit, _ = resource.getrlimit(resource.RLIMIT_AS)
        if limit != resource.RLIM_INFINITY:
            free = min(free, limit - 1024 * int(_line("/proc/self/status", "VmSize:").split()[1]))
        return free
    except (OSError, StopIteration):
        return None


def peak_memory() -> int:
    """Peak memory of this process in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def _line(path: str, start: str) -> str:
    return next(line for line in Path(path).read_text(encoding="ascii").splitlines() if line.startswith(start))
