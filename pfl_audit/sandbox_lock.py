"""Lock of a process on Linux: Landlock and seccomp, by system calls, without a package.

Landlock (kernel 5.13 or newer) leaves a list of folders readable and nothing writable, and from 6.7 on refuses TCP.
Seccomp refuses sockets, new processes, other processes, changes of files and of limits, and parts of the kernel that a
reader of files never needs. Each holds without the other.
"""

from __future__ import annotations

import ctypes
import os
import platform
import struct
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Final

_NO_NEW_PRIVS, _SECCOMP, _FILTER, _DUMPABLE = 38, 22, 2, 4
"""Options of prctl, and the mode of PR_SET_SECCOMP (linux/prctl.h, linux/seccomp.h)."""
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_READ_FILE, _READ_DIR = 1 << 2, 1 << 3
_FILE_RIGHTS: Final = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 5: (1 << 16) - 1}
"""Rights to files that Landlock handles from a version of its interface on (linux/landlock.h)."""
_TCP, _SCOPES = 0b11, 0b11
"""Bind and connect, from version 4; abstract sockets and signals, from version 6."""

_ARCHITECTURES: Final = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}
"""Column of ``_REFUSED``, and the number of the architecture in linux/audit.h."""
_REFUSED: Final = {
    # A number of x86_64, and of aarch64; None where it lacks the call.
    "network": ((41, 198), (42, 203), (43, 202), (49, 200), (50, 201), (53, 199), (288, 242)),
    "programs": ((57, None), (58, None), (59, 221), (322, 281), (109, 154), (112, 157)),
    "other processes": ((101, 117), (310, 270), (311, 271), (312, 272), (424, 424), (434, 434), (438, 438),
                        (440, 440), (448, 448), (129, 138), (297, 240), (200, 130), (141, 140), (142, 118),
                        (144, 119), (203, 122), (251, 30), (314, 274), (256, 238), (279, 239)),
    "files": ((76, 45), (82, None), (83, None), (84, None), (85, None), (86, None), (87, None), (88, None),
              (133, None), (258, 34), (259, 33), (263, 35), (264, 38), (265, 37), (266, 36), (316, 276),
              (90, None), (91, 52), (268, 53), (452, 452), (92, None), (93, 55), (94, None), (260, 54),
              (132, None), (235, None), (261, None), (280, 88), (188, 5), (189, 6), (190, 7), (197, 14),
              (198, 15), (199, 16), (463, 463), (466, 466), (469, 469), (303, 264), (304, 265)),
    "limits and identity": ((160, 164), (105, 146), (106, 144), (113, 145), (114, 143), (116, 159), (117, 147),
                            (119, 149), (122, 151), (123, 152), (126, 91)),
    "memory and queues that outlive it": (
        (29, 194), (30, 196), (31, 195), (64, 190), (65, 193), (66, 191), (68, 186), (69, 189), (70, 188), (71, 187),
        (220, 192), (240, 180), (241, 181), (319, 279), (447, 447)),
    "watching": ((253, None), (294, 26), (300, 262)),
    "kernel": ((425, 425), (426, 426), (427, 427), (248, 217), (249, 218), (250, 219), (321, 280), (298, 241),
               (323, 282), (103, 116), (155, 41), (161, 51), (163, 89), (164, 170), (159, 171), (227, 112),
               (305, 266), (165, 40), (166, 39), (167, 224), (168, 225), (169, 142), (170, 161), (171, 162),
               (172, None), (173, None), (175, 105), (176, 106), (313, 273), (179, 60), (443, 443), (246, 104),
               (320, 294), (272, 97), (308, 268), (135, 92), (153, 58), (428, 428), (429, 429), (430, 430),
               (431, 431), (432, 432), (433, 433), (442, 442), (467, 467)),
}  # fmt: skip
_NEWEST: Final = 469
"""Highest number of a call that ``_REFUSED`` was written for (Linux 6.17); a newer one answers ENOSYS, as in an older
kernel, and so does a call of the x32 interface."""
_CLONE, _KILL, _TGKILL, _PRLIMIT = (56, 220), (62, 129), (234, 131), (302, 261)
_OPEN, _OPENAT, _CLONE3, _OPENAT2 = (2, None), (257, 56), (435, 435), (437, 437)
_IOCTL, _FCNTL, _PRCTL = (16, 29), (72, 25), (157, 167)
_THREAD = 0x10000
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
_REQUESTS: Final = (0x5401, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451)
"""Of ioctl, allowed: TCGETS, TIOCGWINSZ, FIONREAD, FIONBIO, FIONCLEX and FIOCLEX; others change files or terminals."""
_COMMANDS: Final = (8, 10, 15, 1024, 1026)
"""Of fcntl, refused: F_SETOWN, F_SETSIG, F_SETOWN_EX, F_SETLEASE and F_NOTIFY signal others."""

_LOAD, _EQUAL, _ABOVE, _ANY_BIT, _RETURN = 0x20, 0x15, 0x25, 0x45, 0x06
"""Instructions of classic BPF (linux/filter.h)."""
_SIZE: Final = 8
"""Bytes of an instruction."""
_ALLOW, _KILL_PROCESS, _ERROR = 0x7FFF0000, 0x80000000, 0x00050000
_EPERM, _ENOSYS = 1, 38


class LockError(Exception):
    """The kernel lacks a part of the lock, or does not let a process use it; the text names the part."""


def landlock(readable: Iterable[Path]) -> None:
    """Leave folders and files readable to this thread and those that it starts, and nothing writable.

    Args:
        readable: Folders, with all below them, and files; those that are missing are left out.

    Raises:
        LockError: The kernel has no Landlock.
    """
    version = _call(_CREATE_RULESET, None, 0, 1) if sys.platform == "linux" else 0
    if version < 1:
        raise LockError("Landlock")
    handled = _FILE_RIGHTS[max(known for known in _FILE_RIGHTS if known <= version)]
    attributes = struct.pack("QQQ", handled, _TCP if version >= 4 else 0, _SCOPES if version >= 6 else 0)
    size = 24 if version >= 6 else 16 if version >= 4 else 8
    rules = _call(_CREATE_RULESET, attributes, size, 0)
    try:
        for path in readable:
            _allow_reading(rules, path)
        if rules < 0 or _prctl(_NO_NEW_PRIVS, 1) or _call(_RESTRICT_SELF, rules, 0) < 0:
            raise LockError("Landlock")
    finally:
        if rules >= 0:
            os.close(rules)


def _allow_reading(rules: int, path: Path) -> None:
    try:
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    rights = _READ_FILE | (_READ_DIR if path.is_dir() else 0)
    if _call(_ADD_RULE, rules, 1, struct.pack("=Qi", rights, place), 0) < 0:
        raise LockError("Landlock")
    os.close(place)


def seccomp() -> None:
    """Refuse the system calls of ``_REFUSED`` to all threads of this process, and some by their arguments.

    Raises:
        LockError: The kernel has no filters, or the calls of the architecture are not known here.
    """
    known = _ARCHITECTURES.get(platform.machine()) if sys.platform == "linux" else None
    if known is None:
        raise LockError("seccomp")
    program = _program(*known)
    code = ctypes.create_string_buffer(program, len(program))
    head = struct.pack("HP", len(program) // _SIZE, ctypes.addressof(code))
    _prctl(_DUMPABLE, 0)  # a core dump may be piped to a program, whatever its limit of size is
    if _prctl(_NO_NEW_PRIVS, 1) or _prctl(_SECCOMP, _FILTER, head):
        raise LockError("seccomp")


def _program(column: int, architecture: int) -> bytes:
    """Filter of the calls of an architecture, whose numbers are in a column of ``_REFUSED``."""
    refuse, allow = _step(_RETURN, _ERROR | _EPERM), _step(_RETURN, _ALLOW)
    absent = _step(_RETURN, _ERROR | _ENOSYS)

    def when(call: tuple[int, int | None], *steps: bytes) -> bytes:
        number, body = call[column], b"".join(steps)
        return b"" if number is None else _step(_EQUAL, number, 0, len(body) // _SIZE) + body

    def argument(position: int, *, upper: bool = False) -> bytes:
        return _step(_LOAD, 16 + 8 * position + 4 * upper)  # both architectures are little-endian

    out = _step(_LOAD, 4) + _step(_EQUAL, architecture, 1, 0) + _step(_RETURN, _KILL_PROCESS)
    out += _step(_LOAD, 0) + _step(_ABOVE, _NEWEST, 0, 1) + absent
    out += b"".join(when(call, refuse) for calls in _REFUSED.values() for call in calls)
    # Flags behind a pointer cannot be seen: the C library then falls back to clone and openat, whose flags can.
    out += when(_CLONE3, absent) + when(_OPENAT2, absent)
    out += when(_CLONE, argument(0), _step(_ANY_BIT, _THREAD, 1, 0), refuse, allow)
    out += when(_OPEN, argument(1), _step(_ANY_BIT, _WRITING, 0, 1), refuse, allow)
    out += when(_OPENAT, argument(2), _step(_ANY_BIT, _WRITING, 0, 1), refuse, allow)
    own = _step(_EQUAL, os.getpid(), 1, 0)
    out += when(_KILL, argument(0), own, refuse, allow) + when(_TGKILL, argument(0), own, refuse, allow)
    nothing = _step(_EQUAL, 0, 1, 0), refuse
    out += when(_PRLIMIT, argument(2), *nothing, argument(2, upper=True), *nothing, allow)
    for call, position, values, found, other in (
        (_IOCTL, 1, _REQUESTS, allow, refuse),
        (_FCNTL, 1, _COMMANDS, refuse, allow),
        (_PRCTL, 0, (_DUMPABLE,), refuse, allow),
    ):
        out += when(call, argument(position), *(_step(_EQUAL, one, 0, 1) + found for one in values), other)
    return out + allow


def _step(code: int, value: int, then: int = 0, otherwise: int = 0) -> bytes:
    """An instruction: its code, jumps over instructions where a test holds and where it does not, and its value."""
    return struct.pack("HBBI", code, then, otherwise, value)


def _call(number: int, *arguments: bytes | int | None) -> int:
    """Answer of a system call, negative where it fails."""
    library = ctypes.CDLL(None)
    library.syscall.restype = ctypes.c_long
    return int(library.syscall(*(ctypes.c_long(one) if isinstance(one, int) else one for one in (number, *arguments))))


def _prctl(option: int, value: int, argument: bytes | None = None) -> int:
    return int(ctypes.CDLL(None).prctl(option, ctypes.c_ulong(value), argument, None, None))
