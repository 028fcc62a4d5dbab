"""What a process does with memory that a model has freed."""

from __future__ import annotations

import ctypes

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
